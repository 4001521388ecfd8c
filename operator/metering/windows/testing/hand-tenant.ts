import type { Connection } from '../../../kubernetes/connection.ts';
import type { Bracket, RawObject, SourceHealth } from '../../../kubernetes/source.ts';
import type { ManualClock } from '../../../kubernetes/testing/manual-clock.ts';
import { NODE_SETTINGS } from '../../meters/testing/objects.ts';
import { projectNode } from '../../timelines/node.ts';
import { createObservation, type TenantObservation } from '../../timelines/observation.ts';
import { insideTenant, tenancyOf } from '../../timelines/inside-tenant.ts';
import { type PodView, projectPod } from '../../timelines/pod.ts';
import type { TenantClusterTimelines } from '../../timelines/tenant-cluster-timeline.ts';
import type { TenantObjects } from '../tenant-scopes.ts';

/** The API of a tenant cluster with private nodes, driven by a test. */
export interface HandTenant extends TenantObjects {
  hasPrivateNodes: boolean;
  listed: boolean;
  ended: TenantObjects['ended'];
  metricsApi: Pick<Connection, 'bytes'> | undefined;
  node(object: RawObject): void;
  pod(object: RawObject): void;
  /** Fails until it recovers, or until `until`. */
  fail(reason: string, until?: number): void;
  recover(): void;
  /** Recovers with a list, because the API's history is too short. */
  relist(): void;
}

export interface HandTenantOptions {
  readonly id: string;
  readonly clock: ManualClock;
  /** Those of the process that meters it. */
  readonly tenantClusters: TenantClusterTimelines;
}

export function createHandTenant({ id, clock, tenantClusters }: HandTenantOptions): HandTenant {
  const complete = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  const observation: TenantObservation = {
    ...complete,
    tenantClusters: tenancyOf(tenantClusters, id),
  };
  const pods = new Map<string, PodView>();
  let failure: string | undefined;
  let seenAt = 0;
  let failsUntil = Infinity;
  const unseen: Bracket[] = [];
  let waiting: (() => void)[] | undefined;
  const take = (change: () => void): void => {
    if (waiting === undefined) change();
    else waiting.push(change);
  };
  const release = (): void => {
    const waited = waiting ?? [];
    waiting = undefined;
    for (const change of waited) change();
  };
  const now = () => ({ at: clock.now(), knownUntil: clock.now(), late: false });
  const health = (): SourceHealth =>
    failure === undefined || clock.now() >= failsUntil
      ? { state: 'synced', since: 0, freshAt: clock.now(), unseen }
      : { state: 'failing', since: seenAt, freshAt: seenAt, reason: failure };
  for (const timelines of [observation.nodes, observation.pods]) timelines.listed(() => true, 0);
  return {
    id,
    observation,
    sources: [{ resource: { plural: 'nodes' }, health }],
    listed: true,
    hasPrivateNodes: true,
    ended: undefined,
    metricsApi: undefined,
    watchPoints: (knownAt) => ({
      [observation.nodes.kind]: { knownAt },
      [observation.pods.kind]: { knownAt },
    }),
    retain: () => {
      waiting ??= [];
      return {
        get isComplete() {
          return waiting !== undefined;
        },
        release,
      };
    },
    refresh: () => {
      release();
      observation.nodes.refresh(clock.now());
    },
    findPod: (namespace, name) => pods.get(`${namespace}/${name}`),
    node: (object) => {
      const node = projectNode(object);
      const arrival = now();
      if (node !== undefined) take(() => observation.nodes.upserted(node, undefined, arrival));
    },
    pod: (object) => {
      const pod = insideTenant(projectPod)(object);
      if (pod === undefined) return;
      pods.set(`${pod.namespace}/${pod.name}`, pod);
      const arrival = now();
      take(() => observation.pods.upserted(pod, undefined, arrival));
    },
    fail: (reason, until = Infinity) => {
      failsUntil = until;
      seenAt = clock.now();
      failure = reason;
    },
    recover: () => {
      failure = undefined;
    },
    relist: () => {
      failure = undefined;
      unseen.push({ from: seenAt, until: clock.now() });
    },
  };
}
