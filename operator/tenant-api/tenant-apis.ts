import pLimit from 'p-limit';
import type { Discovery } from '../discovery/discovery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { pause } from '../kubernetes/abort.ts';
import type { Projected, SourceHandler, SourceHealth } from '../kubernetes/source.ts';
import type { LoadBalancerView } from '../observation/load-balancer.ts';
import type { NodeView } from '../observation/node.ts';
import {
  createObservation,
  type Observation,
  type ObservationOptions,
} from '../observation/observation.ts';
import type { ObjectLabels } from '../observation/object-labels.ts';
import { tenancyOf } from '../observation/own-cluster.ts';
import type { TenantClusterTimelines } from '../observation/tenant-cluster-timeline.ts';
import type { VolumeClaimView } from '../observation/volume-claim.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { mergeFailures } from './failures.ts';
import { createFirstLists } from './first-lists.ts';
import { DEFAULT_LIMITS, type TenantLimits } from './limits.ts';
import { createOwnNodes, type OwnNodes } from './own-nodes.ts';
import { createSyncedObjects, type HostObjects } from './synced-objects.ts';
import type { FailedTenantApi, TenantApiAccess } from './tenant-api.ts';
import { createTenantUnit, type TenantUnit, type TenantWay } from './tenant-unit.ts';
import type { TenantResume } from './tenant-watches.ts';

export interface TenantApisOptions {
  readonly access: TenantApiAccess;
  /** TENANT_API; without it what the journal knows is closed and forgotten. */
  readonly enabled: () => boolean;
  readonly discovery: Pick<Discovery, 'clusters' | 'subscribe' | 'known'>;
  /** Tenant clusters over time. */
  readonly tenantClusters: TenantClusterTimelines;
  /** What the host cluster has, so that nothing is billed twice. */
  readonly host: {
    readonly nodes: {
      health(): SourceHealth;
      find(namespace: string, name: string): NodeView | undefined;
    };
    readonly volumes: HostObjects;
    readonly loadBalancers: HostObjects;
  };
  /** How objects are followed, as on the host. */
  readonly observing: Pick<ObservationOptions, 'nodeSettings' | 'billedUntil' | 'countClamped'>;
  readonly limits?: TenantLimits;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/** What the journal knew of a tenant cluster's API; the observation is one that {@link TenantApis.observe} made. */
export interface KnownTenantApi {
  readonly id: string;
  readonly hasOwnNodes: boolean;
  readonly resume: TenantResume;
}

/** The APIs of tenant clusters with nodes of their own: what they show, and which fail. */
export interface TenantApis {
  list(): readonly TenantUnit[];
  /** By tenant cluster: without an accepted kubeconfig, or with one that does not work. */
  failures(): readonly FailedTenantApi[];
  /** An observation for the objects of a tenant cluster; the same one for the same id. */
  observe(id: string): Observation;
  /** Before {@link run}. */
  restore(known: readonly KnownTenantApi[]): void;
  /** Nothing more is asked of a tenant cluster that is gone. */
  release(id: string): void;
  /** Handlers for the host's watches. */
  readonly onHost: {
    readonly nodes: SourceHandler<NodeView>;
    readonly volumes: SourceHandler<VolumeClaimView>;
    readonly loadBalancers: SourceHandler<LoadBalancerView>;
  };
  /** Watches until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** First lists under way at the same time. */
const STARTS_AT_ONCE = 32;
const REPORT_MS = 10_000;

/** How a tenant cluster is looked at, from inside. */
interface Inside {
  readonly observation: Observation;
  readonly ownNodes: OwnNodes;
}

export function createTenantApis(options: TenantApisOptions): TenantApis {
  const { access, discovery, host, tenantClusters, clock, random, logger } = options;
  const units = new Map<string, TenantUnit>();
  const insides = new Map<string, Inside>();
  const counts = new Map<string, number>();
  const limit = pLimit(STARTS_AT_ONCE);
  const firstLists = createFirstLists();
  const hostNodes = {
    resource: { plural: 'nodes of this cluster' },
    health: () => host.nodes.health(),
  };
  let closed = false;

  const inside = (id: string): Inside => {
    const known = insides.get(id);
    if (known !== undefined) return known;
    const cluster = (): TenantCluster | undefined =>
      tenantClusters.current.find((each) => each.id === id);
    const isKnown = (uid: string): boolean =>
      [...observation.nodes.inNamespace('')].some(
        (node) => node.uid === uid && node.spans.at(-1)?.state.foreign !== true,
      );
    const ownNodes = createOwnNodes({ host: host.nodes, cluster, isKnown, logger });
    const isSyncedVolume = createSyncedObjects(host.volumes, cluster);
    const isSyncedLoadBalancer = createSyncedObjects(host.loadBalancers, cluster);
    const whole = createObservation({
      ...options.observing,
      foreignSince: ownNodes.foreignSince,
      isSynced: (object) =>
        'bound' in object ? isSyncedVolume(object) : isSyncedLoadBalancer(object),
    });
    const observation: Observation = {
      ...whole,
      // Everything is closed together here, so that one timeline of each pod and node is enough.
      pods: whole.gpuPods,
      nodes: whole.gpuNodes,
      tenantClusters: tenancyOf(tenantClusters, id),
    };
    const made = { observation, ownNodes };
    insides.set(id, made);
    return made;
  };

  const open = (id: string, known?: KnownTenantApi): TenantUnit => {
    const unit = createTenantUnit({
      id,
      ...inside(id),
      hostNodes,
      hasOwnNodes: known?.hasOwnNodes ?? false,
      resume: known?.resume ?? {},
      limits: options.limits ?? DEFAULT_LIMITS,
      firstLists,
      limit,
      clock,
      random,
      logger,
    });
    units.set(id, unit);
    return unit;
  };

  /** Gives every tenant cluster's unit what is known of the way to it. */
  function review(): void {
    if (closed) return;
    const ways = new Map<string, TenantWay>();
    const clusters = new Map(discovery.clusters().map((cluster) => [cluster.id, cluster]));
    for (const { cluster, connection } of access.list()) {
      ways.set(cluster.id, { kind: 'open', cluster, connection });
    }
    for (const { tenantCluster, reason } of access.failures()) {
      const cluster = clusters.get(tenantCluster);
      if (cluster !== undefined) ways.set(tenantCluster, { kind: 'closed', cluster, reason });
    }
    for (const [id, way] of ways) {
      if (units.has(id) || isMissed(way)) (units.get(id) ?? open(id)).take(way);
    }
    for (const [id, unit] of units) {
      if (ways.has(id)) continue;
      const way = elsewise(clusters.get(id));
      if (way !== undefined) unit.take(way);
    }
  }

  /** Of a tenant cluster that is not in the access's lists. */
  function elsewise(cluster: TenantCluster | undefined): TenantWay | undefined {
    if (!options.enabled()) return { kind: 'gone' };
    if (!discovery.known()) return undefined;
    if (cluster === undefined || cluster.excluded) return { kind: 'gone' };
    if (cluster.nodeMode === 'shared') return { kind: 'gone' };
    return { kind: 'closed', cluster, reason: 'its kubeconfig is not read yet' };
  }

  function reportCounts(): void {
    for (const unit of units.values()) {
      const count = unit.ownNodeCount();
      const before = counts.get(unit.id) ?? 0;
      if (count === before || !unit.listed) continue;
      counts.set(unit.id, count);
      logger.info(`[metrics] tenant cluster ${unit.id}: own nodes ${before} → ${count}`);
    }
  }

  const unitOf = (
    object: Projected & { readonly labels: ObjectLabels },
  ): TenantUnit | undefined => {
    const { managedBy } = object.labels;
    if (managedBy === undefined || units.size === 0) return undefined;
    const owner = tenantClusters.current.find(
      ({ namespace, name }) => namespace === object.namespace && name === managedBy,
    );
    return owner === undefined ? undefined : units.get(owner.id);
  };

  return {
    list: () => [...units.values()],
    failures: () =>
      mergeFailures(
        access.failures(),
        [...units.values()].flatMap((unit) => unit.failure() ?? []),
      ),
    observe: (id) => inside(id).observation,
    restore: (known) => {
      for (const each of known) open(each.id, each);
    },
    release: (id) => {
      const unit = units.get(id);
      units.delete(id);
      insides.delete(id);
      counts.delete(id);
      void unit?.close().then(review);
    },
    onHost: {
      nodes: {
        upserted: ({ name, machine }, previous) => {
          if (previous !== undefined && previous.machine === machine) return;
          for (const unit of units.values()) unit.hostNodeChanged(name);
        },
        deleted: ({ name }) => {
          for (const unit of units.values()) unit.hostNodeChanged(name);
        },
      },
      volumes: onNew((object) => unitOf(object)?.observation.volumes.refresh(clock.now())),
      loadBalancers: onNew((object) =>
        unitOf(object)?.observation.loadBalancers.refresh(clock.now()),
      ),
    },
    run: async (signal) => {
      const ends = [access.subscribe(review), discovery.subscribe(() => review())];
      review();
      while (await pause(clock, REPORT_MS, signal)) {
        reportCounts();
        review();
      }
      closed = true;
      for (const end of ends) end();
      await Promise.all([...units.values()].map((unit) => unit.close()));
    },
  };
}

/** A way to a tenant cluster's API that is closed is of interest where it is known to have nodes of its own. */
function isMissed(way: TenantWay): boolean {
  if (way.kind !== 'closed') return true;
  return way.cluster.source === 'external' || way.cluster.nodeMode === 'private';
}

function onNew<T extends Projected & { readonly labels: ObjectLabels }>(
  tell: (object: T) => void,
): SourceHandler<T> {
  return {
    upserted: (next, previous) => {
      if (previous === undefined) tell(next);
    },
    deleted: () => undefined,
  };
}
