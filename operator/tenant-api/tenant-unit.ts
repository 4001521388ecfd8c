import type { LimitFunction } from 'p-limit';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { pause } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { SourceHandler, SourceHealth } from '../kubernetes/source.ts';
import type { NodeView } from '../observation/node.ts';
import type { Observation } from '../observation/observation.ts';
import type { PodView } from '../observation/pod.ts';
import { currentState } from '../observation/timeline.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { FirstLists } from './first-lists.ts';
import type { KindWatch } from './kind-watch.ts';
import { createBudget, type TenantLimits } from './limits.ts';
import { onlyDebug } from './only-debug.ts';
import type { OwnNodes } from './own-nodes.ts';
import type { FailedTenantApi } from './tenant-api.ts';
import {
  createTenantWatches,
  type TenantResume,
  type WatchConnection,
  watchConnection,
} from './tenant-watches.ts';

/** What is known of the way to a tenant cluster's API. */
export type TenantWay =
  | {
      readonly kind: 'open';
      readonly cluster: TenantCluster;
      readonly connection: Connection;
    }
  | { readonly kind: 'closed'; readonly cluster: TenantCluster; readonly reason: string }
  /** It is gone, or not to be metered through its API any more. */
  | { readonly kind: 'gone' };

/** A watch, as far as the collector needs to know it. */
export interface TenantSource {
  readonly resource: { readonly plural: string };
  health(): SourceHealth;
}

/**
 * One tenant cluster's API: what it shows, while it can be reached, and what of it is still to be
 * billed when it is gone. Fits the collector's `TenantObjects`.
 */
export interface TenantUnit {
  readonly id: string;
  readonly observation: Observation;
  readonly sources: readonly TenantSource[];
  readonly listed: boolean;
  readonly hasOwnNodes: boolean;
  readonly ended: { readonly at: number; readonly knownUntil: number } | undefined;
  watchPoints(now: number): Readonly<Record<string, { knownAt: number; resourceVersion?: string }>>;
  readonly metricsApi: Pick<Connection, 'bytes'> | undefined;
  findPod(namespace: string, name: string): PodView | undefined;
  /** Why it cannot be read although there is a way to it; undefined while it can. */
  failure(): FailedTenantApi | undefined;
  /** Own nodes that are there. */
  ownNodeCount(): number;
  /** The host cluster's node of this name came, changed or went. */
  hostNodeChanged(name: string): void;
  take(way: TenantWay): void;
  /** Stops everything; resolves when nothing runs any more. */
  close(): Promise<void>;
}

export interface TenantUnitOptions {
  readonly id: string;
  readonly observation: Observation;
  readonly ownNodes: OwnNodes;
  /** The watch of the host's nodes: while it fails nobody knows which nodes are the tenant's own. */
  readonly hostNodes: TenantSource;
  readonly hasOwnNodes: boolean;
  readonly resume: Partial<TenantResume>;
  readonly limits: TenantLimits;
  /** Shared with all other tenant clusters. */
  readonly firstLists: FirstLists;
  readonly limit: LimitFunction;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/** First lists that take longer go on, but hold up nobody else's any more. */
const START_MS = 3_000;
const LOOK_MS = 50;
/** What is over a limit is left alone for this long. */
const SUSPENSION_MS = 300_000;
/** An API server that has said nothing for this long since it was first asked is told of. */
const SILENCE_MS = 15_000;

/** A node that is a minute older than the moment at which it was not there had other labels before. */
const CREATION_DELAY_MS = 60_000;

export function createTenantUnit(options: TenantUnitOptions): TenantUnit {
  const { id, observation, ownNodes, clock, limit, hostNodes } = options;
  const logger = onlyDebug(options.logger, { tenantCluster: id });
  const closing = new AbortController();
  let way: TenantWay | undefined;
  let connection: WatchConnection | undefined;
  let hasOwnNodes = options.hasOwnNodes;
  let ended: TenantUnit['ended'];
  let suspended: { readonly reason: string; readonly since: number } | undefined;
  let startedAt: number | undefined;
  let starting: Promise<void> | undefined;

  const budget = createBudget({
    limits: options.limits,
    now: () => clock.monotonic(),
    onExceeded: (reason) => suspend(reason),
    firstLists: options.firstLists,
    isListed: () => needed().every(({ listed }) => listed),
  });
  const onNode: SourceHandler<NodeView> = {
    upserted: (node) => {
      if (hasOwnNodes || ownNodes.foreignSince(node) !== undefined) return;
      hasOwnNodes = true;
      // The other watches begin once this list or event is taken in.
      queueMicrotask(review);
    },
    deleted: () => undefined,
  };
  const watches = createTenantWatches({
    observation: { ...observation, nodes: laterOfInterest(observation.nodes) },
    ownNodes,
    onNode,
    resume: options.resume,
    budget,
    clock,
    random: options.random,
    logger,
  });

  const cluster = (): TenantCluster | undefined =>
    way === undefined || way.kind === 'gone' ? undefined : way.cluster;
  const isExternal = (): boolean => cluster()?.source === 'external';
  // Its volumes stay when all of its nodes are gone for a while.
  const mayOwnNodes = (): boolean =>
    hasOwnNodes || isExternal() || cluster()?.nodeMode === 'private';
  const needed = (): readonly KindWatch[] => watches.needed(mayOwnNodes(), cluster());

  function stopAll(reason: string): void {
    for (const watch of watches.all) watch.stop(reason);
  }

  function suspend(reason: string): void {
    if (suspended !== undefined) return;
    suspended = { reason, since: clock.now() };
    options.logger.warn(`[metrics] tenant cluster ${id}: its API is left alone: ${reason}`);
    // The reflector that tells of it is in the middle of its work.
    queueMicrotask(review);
    void pause(clock, SUSPENSION_MS, closing.signal).then((waited) => {
      suspended = undefined;
      if (waited) review();
    });
  }

  /** Brings the watches in line with what is known of the tenant cluster. */
  function review(): void {
    if (ended !== undefined || closing.signal.aborted) return;
    if (way === undefined) return;
    if (way.kind === 'gone') {
      end();
      return;
    }
    if (way.kind === 'closed' || suspended !== undefined) {
      stopAll(way.kind === 'closed' ? way.reason : (suspended?.reason ?? ''));
      return;
    }
    const wanted = needed();
    for (const watch of watches.all) if (!wanted.includes(watch)) watch.stop('not needed');
    starting ??= start().finally(() => {
      starting = undefined;
      if (toStart().length > 0) review();
    });
  }

  function toStart(): readonly KindWatch[] {
    if (way?.kind !== 'open' || suspended !== undefined || closing.signal.aborted) return [];
    if (connection?.of !== way.connection) connection = watchConnection(way.connection);
    const current = connection;
    return needed().filter((watch) => watch.connection !== current.for(watch));
  }

  /** Takes a slot for as long as the first lists take, but not for long. */
  async function start(): Promise<void> {
    if (toStart().length === 0) return;
    await limit(async () => {
      const begun = toStart();
      startedAt ??= clock.now();
      for (const watch of begun) if (connection !== undefined) watch.start(connection.for(watch));
      for (let waited = 0; waited < START_MS; waited += LOOK_MS) {
        if (begun.every((watch) => watch.health().state !== 'starting')) return;
        if (!(await pause(clock, LOOK_MS, closing.signal))) return;
      }
    });
  }

  function end(): void {
    const at = clock.now();
    const known = watches.all.filter((watch) => watch.point(at) !== undefined);
    const until = known.map((watch) => watch.end());
    stopAll('gone');
    ended = { at, knownUntil: until.length === 0 ? at : Math.min(...until) };
  }

  function failure(): FailedTenantApi | undefined {
    if (ended !== undefined || way?.kind !== 'open') return undefined;
    if (suspended !== undefined) return { tenantCluster: id, ...suspended };
    const failing = needed().flatMap((watch) => {
      const { state, reason, since } = watch.health();
      if (state === 'failing') return [{ reason: `${watch.resource.plural}: ${reason}`, since }];
      const silent = state === 'starting' && clock.now() - (startedAt ?? Infinity) > SILENCE_MS;
      return silent ? [{ reason: `${watch.resource.plural}: no answer yet`, since }] : [];
    });
    const [first] = failing;
    if (first === undefined) return undefined;
    return {
      tenantCluster: id,
      reason: first.reason,
      since: Math.min(...failing.map(({ since }) => since)),
    };
  }

  return {
    id,
    observation,
    get sources() {
      return isExternal() ? needed() : [hostNodes, ...needed()];
    },
    get listed() {
      return needed().every(({ listed }) => listed);
    },
    get hasOwnNodes() {
      return mayOwnNodes();
    },
    get ended() {
      return ended;
    },
    watchPoints: (now) =>
      Object.fromEntries(
        watches.all.flatMap((watch) => {
          const point = watch.point(now);
          return point === undefined ? [] : [point];
        }),
      ),
    get metricsApi() {
      if (way?.kind !== 'open' || !hasOwnNodes) return undefined;
      const { privateNodeBilling, cpuMemoryBasis } = way.cluster.metering;
      const bySamples = privateNodeBilling === 'usage' && cpuMemoryBasis !== 'requests';
      return bySamples ? way.connection : undefined;
    },
    findPod: (namespace, name) => watches.pods.find(namespace, name),
    failure,
    ownNodeCount: () =>
      [...observation.nodes.inNamespace('')].filter((node) => {
        const state = currentState(node);
        return state !== undefined && state.foreign !== true;
      }).length,
    hostNodeChanged: (name) => {
      if (watches.nodes.find('', name) !== undefined) observation.nodes.refresh(clock.now());
    },
    take: (next) => {
      if (ended !== undefined) return;
      way = next;
      review();
    },
    close: async () => {
      closing.abort();
      stopAll('stopped');
      await Promise.all([starting, ...watches.all.map((watch) => watch.idle())]);
    },
  };
}

/** A node that was there before but carried a label of the syncer's counts from when it lost it. */
function laterOfInterest(nodes: Observation['nodes']): Observation['nodes'] {
  return {
    ...nodes,
    upserted: (next, previous, arrival) => {
      const { late, knownUntil } = arrival;
      const isOld = next.createdAt < knownUntil - CREATION_DELAY_MS;
      const appeared = previous === undefined && !late && isOld;
      const node = appeared ? { ...next, createdAt: knownUntil } : next;
      nodes.upserted(node, previous, arrival);
    },
  };
}
