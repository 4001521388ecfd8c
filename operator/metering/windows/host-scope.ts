import { least } from '../../model/extremes.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import { observationOf } from '../timelines/seen-timelines.ts';
import type { HostKind } from './host-kinds.ts';
import {
  obstacle,
  type Scope,
  type ScopeProgress,
  type ScopeState,
  type Settling,
  type WatchedSource,
} from './scope.ts';

/** The watches behind sources: one for each namespace where they are watched by namespaces. */
export function partsOf(sources: readonly WatchedSource[]): readonly WatchedSource[] {
  return sources.flatMap((source) => source.members ?? [source]);
}

/** A namespace whose windows of one kind are closed apart, since its watches fail while others do not. */
export interface SeparateScope extends ScopeState {
  readonly namespace: string;
}

export interface HostScopeOptions {
  readonly kind: HostKind;
  readonly progress: ScopeProgress;
  /** Whether the first list of a watch is in. */
  readonly isListed: (part: WatchedSource) => boolean;
  /** Tenant clusters in a namespace, which a gap of it names. */
  readonly tenantClustersIn: (namespace: string) => readonly string[];
}

/** The windows of one kind of usage on this cluster: of all namespaces together, but for those that are apart. */
export class HostScope implements ScopeState {
  readonly scope: Scope;
  progress: ScopeProgress;
  learntUntil = 0;
  readonly #options: HostScopeOptions;
  readonly #separate = new Map<string, SeparateScope>();
  /** Without what is apart. */
  #observation: ObservationReader;

  constructor(options: HostScopeOptions) {
    const { kind } = options;
    this.#options = options;
    this.progress = options.progress;
    this.#observation = kind.observation;
    const observation = (): ObservationReader => this.#observation;
    const storedFrom = (): number =>
      least([...this.#separate.values()].map(({ progress }) => progress.end));
    this.scope = {
      name: kind.name,
      meters: [...kind.meters, ...kind.nodeMeters],
      get observation() {
        return observation();
      },
      timelines: [
        ...kind.namespaced,
        ...kind.shared.map((timelines) => ({
          settle: (end: number) => timelines.settle(end, { retainedFrom: storedFrom() }),
        })),
      ],
      gapsOf: { scope: kind.name },
      expected: true,
      obstacle: (settling) => obstacle(this.#watched(), settling),
    };
  }

  get listed(): boolean {
    return this.#watched().every(this.#options.isListed);
  }

  /** Namespaces whose windows are closed by themselves for now. */
  get apart(): readonly SeparateScope[] {
    return [...this.#separate.values()];
  }

  /**
   * Sets those namespaces apart that alone hold back a window: what is watched of them fails, while
   * others are watched. Where all fail, or nodes do, nobody is to blame.
   */
  divide(settling: Settling): void {
    const holdsBack = (part: WatchedSource): boolean =>
      !this.#options.isListed(part) || obstacle([part], settling) !== undefined;
    const all = new Set<string>();
    const failing = new Set<string>();
    for (const part of this.#watched()) {
      const { namespace } = part.resource;
      if (namespace !== undefined) all.add(namespace);
      if (!holdsBack(part)) continue;
      if (namespace === undefined) return;
      failing.add(namespace);
    }
    if (failing.size === all.size) return;
    for (const namespace of failing) this.setApart(namespace, this.progress, this.learntUntil);
  }

  /** Closes the windows of a namespace by themselves; gives the name of their scope. */
  setApart(namespace: string, progress: ScopeProgress, learntUntil = 0): string {
    const name = `${this.#options.kind.name}/${namespace}`;
    const { kind, isListed, tenantClustersIn } = this.#options;
    for (const timelines of kind.namespaced) timelines.setApart(namespace, progress.end);
    const parts = (): readonly WatchedSource[] =>
      partsOf(kind.sources).filter(
        ({ resource }) => resource.namespace === undefined || resource.namespace === namespace,
      );
    this.#separate.set(namespace, {
      namespace,
      progress,
      learntUntil,
      get listed() {
        return parts().every(isListed);
      },
      scope: {
        name,
        namespace,
        meters: kind.meters,
        observation: observationOf(kind.observation, (each) => each === namespace),
        timelines: kind.namespaced.map((timelines) => ({
          settle: (end: number) => timelines.settle(end, { namespace }),
        })),
        get gapsOf() {
          return { scope: tenantClustersIn(namespace)[0] ?? namespace, source: kind.name };
        },
        get expected() {
          return tenantClustersIn(namespace).length > 0;
        },
        obstacle: (settling) => obstacle(parts(), settling),
      },
    });
    this.#poll();
    return name;
  }

  /** Takes back those that were closed with the same window as all others. */
  rejoin(closed: readonly ScopeState[]): void {
    if (!closed.includes(this)) return;
    for (const separate of this.#separate.values()) {
      if (!closed.includes(separate)) continue;
      for (const timelines of this.#options.kind.namespaced) timelines.rejoin(separate.namespace);
      this.#separate.delete(separate.namespace);
    }
    this.#poll();
  }

  #poll(): void {
    const { observation } = this.#options.kind;
    const isSeparate = (namespace: string): boolean => this.#separate.has(namespace);
    this.#observation =
      this.#separate.size === 0
        ? observation
        : observationOf(observation, (namespace) => !isSeparate(namespace));
  }

  #watched(): readonly WatchedSource[] {
    return partsOf(this.#options.kind.sources).filter(
      ({ resource: { namespace } }) => namespace === undefined || !this.#separate.has(namespace),
    );
  }
}
