import type { Projected } from '../kubernetes/source.ts';
import { meterClaimedGpus, meterGpuHours } from '../metering/gpu-hours.ts';
import { meterCpuAndMemory } from '../metering/cpu-memory.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import { meterInstanceHours } from '../metering/instance-hours.ts';
import { meterLoadBalancers, meterStorage } from '../metering/held-resources.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Observation } from '../observation/observation.ts';
import type { CollectorState } from './journal.ts';
import { firstProgress } from './schedule.ts';
import {
  type CollectorSources,
  obstacle,
  type Scope,
  type ScopeName,
  type ScopeProgress,
  type ScopeState,
  type Settleable,
  type WatchedSource,
  type WatchPoint,
} from './scope.ts';
import { createTenantScopes, type TenantObjectsList, type TenantScopes } from './tenant-scopes.ts';

/** All scopes. */
export interface Scopes {
  /** What is metered out of watches on this cluster. */
  readonly host: readonly ScopeState[];
  /** Tenant clusters with nodes of their own. */
  readonly tenants: TenantScopes;
  /** Both. */
  readonly all: readonly ScopeState[];
  /** The window size in force where windows are closed furthest. */
  readonly windowMs: number;
  /** Marks each scope as listed when its watches are; resolves when all are, or on abort. */
  awaitLists(signal: AbortSignal): Promise<void>;
  /** Where each watch could be resumed; one that has not listed yet, where the journal said. */
  watchPoints(now: number): Readonly<Record<string, WatchPoint>>;
}

export interface ScopesOptions {
  readonly observation: Observation;
  readonly sources: CollectorSources;
  readonly restored: CollectorState | undefined;
  /** What the ledger says, for a ledger whose journal is lost. */
  readonly lastWindowEnd: number | undefined;
  readonly startedAt: number;
  readonly windowMs: number;
  readonly tenants: TenantObjectsList;
  /** Progress of tenant clusters' own APIs out of the journal. */
  readonly restoredTenants: ReadonlyMap<string, ScopeProgress>;
  readonly wantedMs: () => number;
}

/** A scope of this cluster, whose watches list for the first time. */
interface HostScope extends ScopeState {
  listed: boolean;
}

/** Timelines with the watches that feed them. */
type Watched = readonly [timelines: Settleable, sources: readonly WatchedSource[]];

export function createScopes(options: ScopesOptions): Scopes {
  return new AllScopes(options);
}

class AllScopes implements Scopes {
  readonly host: readonly HostScope[];
  readonly tenants: TenantScopes;
  readonly #restored: CollectorState | undefined;
  readonly #watched: readonly Watched[];
  /** Kinds of timelines whose watches have listed. */
  readonly #listed = new Set<string>();

  constructor(options: ScopesOptions) {
    const { observation, restored } = options;
    this.#restored = restored;
    this.#watched = watchedTimelines(options);
    this.host = hostScopes(options).map((scope) => ({
      scope,
      progress: restored?.scopes[scope.name] ?? progressWithoutJournal(options),
      learntUntil: 0,
      listed: false,
    }));
    this.tenants = createTenantScopes({
      tenants: options.tenants,
      restored: options.restoredTenants,
      host: () => this.#furthest.progress,
      wantedMs: options.wantedMs,
      learnt: () => observation.tenantClusters.sequence,
    });
  }

  get #furthest(): HostScope {
    return this.host.reduce((a, b) => (b.progress.end > a.progress.end ? b : a));
  }

  get all(): readonly ScopeState[] {
    return [...this.host, ...this.tenants.all];
  }

  get windowMs(): number {
    return this.#furthest.progress.sizeMs;
  }

  async awaitLists(signal: AbortSignal): Promise<void> {
    const lists = new Map(
      this.#watched.map((watched) => [watched[0], this.#awaitList(watched, signal)]),
    );
    const ready = this.host.map(async (state) => {
      // Together: a rejection of one that nobody awaits yet would end the process.
      await Promise.all(state.scope.timelines.map(async (timelines) => lists.get(timelines)));
      state.listed = true;
    });
    // Only an abort ends the wait for a list early.
    await Promise.allSettled(ready);
  }

  async #awaitList([timelines, sources]: Watched, signal: AbortSignal): Promise<void> {
    await Promise.all(sources.map((source) => source.ready(signal)));
    const holds = ({ uid, namespace, name }: Projected): boolean =>
      sources.some((source) => source.find(namespace, name)?.uid === uid);
    this.#listed.add(timelines.kind);
    timelines.listed(holds, this.#restored?.watches[timelines.kind]?.knownAt ?? 0);
  }

  watchPoints(now: number): Readonly<Record<string, WatchPoint>> {
    return Object.fromEntries(
      this.#watched.flatMap(([{ kind }, sources]) => {
        const before = this.#restored?.watches[kind];
        const point = this.#listed.has(kind) ? pointOf(sources, before, now) : before;
        return point === undefined ? [] : [[kind, point]];
      }),
    );
  }
}

function hostScopes({
  observation,
  sources,
}: ScopesOptions): readonly (Scope & { readonly name: ScopeName })[] {
  const { pods, nodes, volumes, loadBalancers, workloads } = observation;
  const { gpuPods, gpuNodes, resourceClaims, resourceSlices } = observation;
  const scope = (
    name: ScopeName,
    meters: Scope['meters'],
    timelines: Scope['timelines'],
    watched: readonly WatchedSource[],
    seen = observation,
  ) => ({
    name,
    meters,
    timelines,
    observation: seen,
    gapsOf: { scope: name },
    expected: true,
    obstacle: (settling: Parameters<Scope['obstacle']>[0]) => obstacle(watched, settling),
  });
  return [
    scope('pods', [meterCpuAndMemory], [pods, nodes], [sources.pods, sources.nodes]),
    scope(
      'gpus',
      [meterGpuHours, meterClaimedGpus, meterWholeNodes, balanceGpus],
      [gpuPods, gpuNodes, resourceClaims, resourceSlices],
      [sources.pods, sources.nodes, sources.resourceClaims, sources.resourceSlices],
      { ...observation, pods: gpuPods, nodes: gpuNodes },
    ),
    scope('volumes', [meterStorage], [volumes], [sources.volumes]),
    scope('load-balancers', [meterLoadBalancers], [loadBalancers], [sources.loadBalancers]),
    scope('workloads', [meterInstanceHours], [workloads], sources.workloads),
  ];
}

function watchedTimelines({ observation, sources }: ScopesOptions): readonly Watched[] {
  return [
    [observation.pods, [sources.pods]],
    [observation.nodes, [sources.nodes]],
    [observation.gpuPods, [sources.pods]],
    [observation.gpuNodes, [sources.nodes]],
    [observation.resourceClaims, [sources.resourceClaims]],
    [observation.resourceSlices, [sources.resourceSlices]],
    [observation.volumes, [sources.volumes]],
    [observation.loadBalancers, [sources.loadBalancers]],
    [observation.workloads, sources.workloads],
  ];
}

/** A resumed watch on which nothing has come yet knows what was known before. */
function pointOf(
  watched: readonly WatchedSource[],
  before: WatchPoint | undefined,
  now: number,
): WatchPoint {
  const freshAt = Math.min(now, ...watched.map((source) => source.health().freshAt));
  const knownAt = Math.max(freshAt, before?.knownAt ?? 0);
  const resourceVersion = watched.length === 1 ? watched[0]?.resourceVersion() : undefined;
  return { knownAt, ...omitUndefined({ resourceVersion }) };
}

function progressWithoutJournal({
  lastWindowEnd,
  startedAt,
  windowMs,
}: ScopesOptions): ScopeProgress {
  const first =
    lastWindowEnd === undefined
      ? firstProgress(startedAt, windowMs)
      : { end: lastWindowEnd, sizeMs: windowMs };
  return { ...first, meteredFrom: first.end };
}
