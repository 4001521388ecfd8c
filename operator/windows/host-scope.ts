import type { Projected } from '../kubernetes/source.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import { meterCpuAndMemory } from '../metering/cpu-memory.ts';
import { meterClaimedGpus, meterGpuHours } from '../metering/gpu-hours.ts';
import { meterLoadBalancers, meterStorage } from '../metering/held-resources.ts';
import { meterInstanceHours } from '../metering/instance-hours.ts';
import type { Meter } from '../metering/meter.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import { least } from '../model/extremes.ts';
import type { Observation } from '../observation/observation.ts';
import { observationOf } from '../observation/seen-timelines.ts';
import type { SettledPart } from '../observation/timelines.ts';
import {
  type CollectorSources,
  obstacle,
  type Scope,
  type ScopeName,
  type ScopeProgress,
  type ScopeState,
  type Settling,
  type WatchedSource,
} from './scope.ts';

/** Timelines of one kind on this cluster, as scopes use them. */
export interface HostTimelines {
  readonly kind: string;
  settle(end: number, part?: SettledPart): void;
  setApart(namespace: string, settled: number): void;
  rejoin(namespace: string): void;
  listed(
    holds: (object: Projected) => boolean,
    knownUntil: number,
    listedAt?: number,
    isListed?: (namespace: string) => boolean,
  ): void;
}

/** What a kind of usage on this cluster is metered out of. */
export interface HostKind {
  readonly name: ScopeName;
  readonly observation: Observation;
  /** Of objects in namespaces. */
  readonly meters: readonly Meter[];
  readonly namespaced: readonly HostTimelines[];
  /** Of nodes, which are everybody's. */
  readonly nodeMeters: readonly Meter[];
  /** What is in no namespace. */
  readonly shared: readonly HostTimelines[];
  readonly sources: readonly WatchedSource[];
}

/** The kinds of usage that are metered out of watches on this cluster. */
export function hostKinds(
  observation: Observation,
  sources: CollectorSources,
): readonly HostKind[] {
  const { pods, nodes, namespaces, volumes, loadBalancers, workloads } = observation;
  const { gpuPods, gpuNodes, resourceClaims, resourceSlices } = observation;
  const common = { observation, nodeMeters: [], shared: [] };
  return [
    {
      ...common,
      name: 'pods',
      meters: [meterCpuAndMemory],
      namespaced: [pods],
      shared: [nodes, namespaces],
      sources: [sources.pods, sources.nodes],
    },
    {
      name: 'gpus',
      observation: { ...observation, pods: gpuPods, nodes: gpuNodes },
      meters: [meterGpuHours, meterClaimedGpus],
      namespaced: [gpuPods, resourceClaims],
      nodeMeters: [meterWholeNodes, balanceGpus],
      shared: [gpuNodes, resourceSlices],
      sources: [sources.pods, sources.nodes, sources.resourceClaims, sources.resourceSlices],
    },
    {
      ...common,
      name: 'volumes',
      meters: [meterStorage],
      namespaced: [volumes],
      sources: [sources.volumes],
    },
    {
      ...common,
      name: 'load-balancers',
      meters: [meterLoadBalancers],
      namespaced: [loadBalancers],
      sources: [sources.loadBalancers],
    },
    {
      ...common,
      name: 'workloads',
      meters: [meterInstanceHours],
      namespaced: [workloads],
      sources: sources.workloads,
    },
  ];
}

/** The watches behind sources: one for each namespace where they are watched by namespaces. */
export function partsOf(sources: readonly WatchedSource[]): readonly WatchedSource[] {
  return sources.flatMap((source) => source.parts ?? [source]);
}

/** A namespace whose windows of one kind are closed apart, since its watches fail while others do not. */
export interface ApartScope extends ScopeState {
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
  readonly #apart = new Map<string, ApartScope>();
  /** Without what is apart. */
  #observation: Observation;

  constructor(options: HostScopeOptions) {
    const { kind } = options;
    this.#options = options;
    this.progress = options.progress;
    this.#observation = kind.observation;
    const observation = (): Observation => this.#observation;
    const keptFrom = (): number =>
      least([...this.#apart.values()].map(({ progress }) => progress.end));
    this.scope = {
      name: kind.name,
      meters: [...kind.meters, ...kind.nodeMeters],
      get observation() {
        return observation();
      },
      timelines: [
        ...kind.namespaced,
        ...kind.shared.map((timelines) => ({
          settle: (end: number) => timelines.settle(end, { keptFrom: keptFrom() }),
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
  get apart(): readonly ApartScope[] {
    return [...this.#apart.values()];
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
    this.#apart.set(namespace, {
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
    this.#look();
    return name;
  }

  /** Takes back those that were closed with the same window as all others. */
  rejoin(closed: readonly ScopeState[]): void {
    if (!closed.includes(this)) return;
    for (const apart of this.#apart.values()) {
      if (!closed.includes(apart)) continue;
      for (const timelines of this.#options.kind.namespaced) timelines.rejoin(apart.namespace);
      this.#apart.delete(apart.namespace);
    }
    this.#look();
  }

  #look(): void {
    const { observation } = this.#options.kind;
    const isApart = (namespace: string): boolean => this.#apart.has(namespace);
    this.#observation =
      this.#apart.size === 0
        ? observation
        : observationOf(observation, (namespace) => !isApart(namespace));
  }

  #watched(): readonly WatchedSource[] {
    return partsOf(this.#options.kind.sources).filter(
      ({ resource: { namespace } }) => namespace === undefined || !this.#apart.has(namespace),
    );
  }
}
