import type { Projected } from '../kubernetes/source.ts';
import { meterClaimedGpus, meterGpuHours } from '../metering/gpu-hours.ts';
import { meterCpuAndMemory } from '../metering/cpu-memory.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import { meterInstanceHours } from '../metering/instance-hours.ts';
import { meterLoadBalancers, meterStorage } from '../metering/held-resources.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import type { Observation } from '../observation/observation.ts';
import type { CollectorSources } from './collector.ts';
import type { CollectorState, WatchPoint } from './journal.ts';
import { firstProgress } from './schedule.ts';
import {
  obstacle,
  type Scope,
  type ScopeName,
  type ScopeProgress,
  type ScopeUnderWay,
  type Settleable,
  type WatchedSource,
} from './scope.ts';
import type { TenantObjectsList } from './tenant-objects.ts';
import { createTenantScopes, type TenantScopes } from './tenant-scopes.ts';

/** All scopes. */
export interface Scopes {
  /** What is metered out of watches on this cluster. */
  readonly host: readonly ScopeUnderWay[];
  /** Tenant clusters with nodes of their own. */
  readonly tenants: TenantScopes;
  /** Both. */
  readonly all: readonly ScopeUnderWay[];
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
interface HostScope extends ScopeUnderWay {
  listed: boolean;
}

export function createScopes(options: ScopesOptions): Scopes {
  const { observation, sources, restored } = options;
  const { pods, nodes, volumes, loadBalancers, workloads } = observation;
  const { gpuPods, gpuNodes, resourceClaims, resourceSlices } = observation;
  const scope = (
    name: ScopeName,
    meters: Scope['meters'],
    timelines: Scope['timelines'],
    watched: readonly WatchedSource[],
    seen = observation,
  ): HostScope => ({
    scope: {
      name,
      meters,
      timelines,
      observation: seen,
      gapsOf: { scope: name },
      expected: true,
      obstacle: (settling) => obstacle(watched, settling),
    },
    progress: restored?.scopes[name] ?? firstOf(options),
    learntUntil: 0,
    listed: false,
  });
  const host = [
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
  const watches: readonly (readonly [Settleable, readonly WatchedSource[]])[] = [
    [pods, [sources.pods]],
    [nodes, [sources.nodes]],
    [gpuPods, [sources.pods]],
    [gpuNodes, [sources.nodes]],
    [resourceClaims, [sources.resourceClaims]],
    [resourceSlices, [sources.resourceSlices]],
    [volumes, [sources.volumes]],
    [loadBalancers, [sources.loadBalancers]],
    [workloads, sources.workloads],
  ];

  const listed = new Set<string>();
  const awaitList = async (
    timelines: Settleable,
    watched: readonly WatchedSource[],
    signal: AbortSignal,
  ): Promise<void> => {
    await Promise.all(watched.map((source) => source.ready(signal)));
    const holds = ({ uid, namespace, name }: Projected): boolean =>
      watched.some((source) => source.find(namespace, name)?.uid === uid);
    listed.add(timelines.kind);
    timelines.listed(holds, restored?.watches[timelines.kind]?.knownAt ?? 0);
  };

  const furthest = (): HostScope =>
    host.reduce((a, b) => (b.progress.end > a.progress.end ? b : a));
  const tenants = createTenantScopes({
    tenants: options.tenants,
    restored: options.restoredTenants,
    host: () => furthest().progress,
    wantedMs: options.wantedMs,
    learnt: () => observation.tenantClusters.sequence,
  });

  return {
    host,
    tenants,
    get all() {
      return [...host, ...tenants.all];
    },
    get windowMs() {
      return furthest().progress.sizeMs;
    },
    awaitLists: async (signal) => {
      const lists = new Map(
        watches.map(([timelines, watched]) => [timelines, awaitList(timelines, watched, signal)]),
      );
      const ready = host.map(async (one) => {
        // Together: a rejection of one that nobody awaits yet would end the process.
        await Promise.all(one.scope.timelines.map(async (timelines) => lists.get(timelines)));
        one.listed = true;
      });
      // Only an abort ends the wait for a list early.
      await Promise.allSettled(ready);
    },
    watchPoints: (now) =>
      Object.fromEntries(
        watches.flatMap(([{ kind }, watched]) => {
          const before = restored?.watches[kind];
          const point = listed.has(kind) ? pointOf(watched, before, now) : before;
          return point === undefined ? [] : [[kind, point]];
        }),
      ),
  };
}

/** A resumed watch on which nothing has come yet knows what was known before. */
function pointOf(
  watched: readonly WatchedSource[],
  before: WatchPoint | undefined,
  now: number,
): WatchPoint {
  const contact = Math.min(now, ...watched.map((source) => source.health().freshAt));
  const knownAt = Math.max(contact, before?.knownAt ?? 0);
  const resourceVersion = watched.length === 1 ? watched[0]?.resourceVersion() : undefined;
  return { knownAt, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}

function firstOf({ lastWindowEnd, startedAt, windowMs }: ScopesOptions): ScopeProgress {
  const first =
    lastWindowEnd === undefined
      ? firstProgress(startedAt, windowMs)
      : { end: lastWindowEnd, sizeMs: windowMs };
  return { ...first, meteredFrom: first.end };
}
