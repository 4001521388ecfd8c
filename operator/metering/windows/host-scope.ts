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

/** The single watches of these sources: one for each namespace with WATCH_NAMESPACES. */
export function singleWatches(sources: readonly WatchedSource[]): readonly WatchedSource[] {
  return sources.flatMap((source) => source.members ?? [source]);
}

/** The windows of one kind of usage on this cluster: all namespaces except the separate ones. */
export class HostScope implements ScopeState {
  readonly scope: Scope;
  progress: ScopeProgress;
  learntUntil = 0;
  readonly #options;
  /** Namespaces with separate windows: their watches fail while others work. */
  readonly #separate = new Map<string, ScopeState>();
  /** Excludes the separate namespaces. */
  #observation: ObservationReader;

  constructor(options: {
    readonly kind: HostKind;
    readonly progress: ScopeProgress;
    /** Whether the first list of a watch has arrived. */
    readonly isListed: (watch: WatchedSource) => boolean;
    /** Ids of the tenant clusters in a namespace. Gaps of the namespace name them. */
    readonly tenantClustersIn: (namespace: string) => readonly string[];
  }) {
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

  /** Namespaces with separate windows. */
  get separateScopes(): readonly ScopeState[] {
    return [...this.#separate.values()];
  }

  /**
   * Separates the namespaces that alone block a window: their watches fail while others work. Does
   * nothing if all namespaces or the nodes fail.
   */
  divide(settling: Settling): void {
    const isBlocking = (watch: WatchedSource): boolean =>
      !this.#options.isListed(watch) || obstacle([watch], settling) !== undefined;
    const all = new Set<string>();
    const failing = new Set<string>();
    for (const watch of this.#watched()) {
      const { namespace } = watch.resource;
      if (namespace !== undefined) all.add(namespace);
      if (!isBlocking(watch)) continue;
      if (namespace === undefined) return;
      failing.add(namespace);
    }
    if (failing.size === all.size) return;
    for (const namespace of failing)
      this.separateNamespace(namespace, this.progress, this.learntUntil);
  }

  /** Gives a namespace separate windows. Returns the name of its new scope. */
  separateNamespace(namespace: string, progress: ScopeProgress, learntUntil = 0): string {
    const name = `${this.#options.kind.name}/${namespace}`;
    const { kind, isListed, tenantClustersIn } = this.#options;
    for (const timelines of kind.namespaced) timelines.separateNamespace(namespace, progress.end);
    const watches = (): readonly WatchedSource[] =>
      singleWatches(kind.sources).filter(
        ({ resource }) => resource.namespace === undefined || resource.namespace === namespace,
      );
    this.#separate.set(namespace, {
      progress,
      learntUntil,
      get listed() {
        return watches().every(isListed);
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
        obstacle: (settling) => obstacle(watches(), settling),
      },
    });
    this.#refreshObservation();
    return name;
  }

  /** Rejoins the namespaces that closed the same window as all others. */
  rejoin(closed: readonly ScopeState[]): void {
    if (!closed.includes(this)) return;
    for (const [namespace, separate] of this.#separate) {
      if (!closed.includes(separate)) continue;
      for (const timelines of this.#options.kind.namespaced) timelines.rejoin(namespace);
      this.#separate.delete(namespace);
    }
    this.#refreshObservation();
  }

  #refreshObservation(): void {
    const { observation } = this.#options.kind;
    const isSeparate = (namespace: string): boolean => this.#separate.has(namespace);
    this.#observation =
      this.#separate.size === 0
        ? observation
        : observationOf(observation, (namespace) => !isSeparate(namespace));
  }

  #watched(): readonly WatchedSource[] {
    return singleWatches(this.#options.kind.sources).filter(
      ({ resource: { namespace } }) => namespace === undefined || !this.#separate.has(namespace),
    );
  }
}
