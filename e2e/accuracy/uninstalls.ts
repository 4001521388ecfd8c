import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import {
  boundStatus,
  claimObject,
  ensureTenantCluster,
  loadBalancerObject,
} from '../simulator/tenant-clusters.ts';
import { type KubeObject, objectPath } from '../simulator/objects.ts';
import { syncedMeta } from '../simulator/synced.ts';
import type { Watched } from './figures.ts';
import { GPU_MODES } from './modes.ts';
import { passes } from './passes.ts';
import { livePod, type PodEnd, SHAPES } from './pod-life.ts';
import { accountOf, type Moment, momentOf, type Undated } from './undated.ts';
import { pick } from './workload.ts';

export interface UninstallsOptions {
  readonly api: ApiClient;
  readonly random: () => number;
  readonly log: (line: string) => void;
}

const MODES = GPU_MODES.filter(({ slots }) => slots === undefined);
const SIZE = 36;
const PODS = 3;
/** One that is gone within a second may never be found: docs/explanation/discovery.md#how-tenant-clusters-are-found. */
const LEAST_LIFE_MS = 3_000;

/**
 * Tenant clusters that are installed, and uninstalled while their pods use up their grace and their
 * volumes and load balancers are still there, one after the other: all of it is theirs until it is gone.
 */
export async function uninstallClusters(
  options: UninstallsOptions,
  signal: AbortSignal,
): Promise<readonly Uninstalled[]> {
  const all: Uninstalled[] = [];
  for (let number = 0; !signal.aborted; number += 1) {
    all.push(await installAndUninstall(options, number, signal));
    await passes(3_000, signal);
  }
  return all;
}

/** A tenant cluster that has come and gone, and what became of all that it had. */
export interface Uninstalled {
  readonly installed: Moment;
  readonly gone: Moment;
  readonly ends: readonly PodEnd[];
}

async function installAndUninstall(
  { api, random, log }: UninstallsOptions,
  number: number,
  signal: AbortSignal,
): Promise<Uninstalled> {
  const name = `leaving-${number}`;
  const cluster: SimulatedTenantCluster = {
    name,
    namespace: name,
    kind: 'StatefulSet',
    app: 'vcluster',
    tenant: `tenant-${name}-${name}`,
    pods: [],
    claims: [],
    loadBalancers: [],
  };
  const installed = await momentOf(() => ensureTenantCluster(api, cluster));
  const volume = await hold(api, cluster, 'volume');
  const balancer = await hold(api, cluster, 'balancer');
  const leaving = Promise.withResolvers<void>();
  const pods = Array.from({ length: PODS }, (_, index) => {
    const mode = pick(MODES, random);
    return livePod(api, {
      name: `${name}-${index}`,
      cluster,
      place: { node: mode.node, mode },
      shape: pick(SHAPES, random),
      waitMs: 500 * random(),
      keptMs: 500,
      ending: index === 0 ? 'forced' : 'deleted',
      runs: () => leaving.promise.then(() => delay(1_000 + 6_000 * random())),
    }).catch((error: unknown) => log(`${name}: ${String(error)}`));
  });
  await delay(LEAST_LIFE_MS);
  await passes(5_000 + 12_000 * random(), signal);
  const gone = await uninstall(api, cluster);
  leaving.resolve();
  const undated: Undated[] = [
    instanceHours(cluster, installed, gone),
    await release(api, volume, 6_000 * random()),
    await release(api, balancer, 6_000 * random()),
  ];
  const ended = await Promise.all(pods);
  const ends = [
    ...ended.flatMap((end) => end ?? []),
    ...undated.map((one) => ({ kind: 'undated', undated: one }) as const),
  ];
  return { installed, gone, ends };
}

/** As Helm does; what it keeps is the volume of the control plane. */
function uninstall(api: ApiClient, { name, namespace }: SimulatedTenantCluster): Promise<Moment> {
  return momentOf(async () => {
    await api.remove(`/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`, 0);
    await api.remove(`/api/v1/namespaces/${namespace}/services/${name}`, 0);
  });
}

function instanceHours(cluster: SimulatedTenantCluster, from: Moment, to: Moment): Undated {
  return {
    what: 'tenant clusters uninstalled',
    name: cluster.name,
    kind: 'statefulsets',
    accounts: [accountOf(tenantClusterId(cluster), '')],
    stretches: [{ metric: 'tenant_instance_hours', perHour: 1, from, to }],
  };
}

/** A volume or load balancer that outlives its tenant cluster. */
interface Stored {
  readonly cluster: SimulatedTenantCluster;
  readonly name: string;
  readonly object: KubeObject;
  readonly kind: Watched;
  readonly metric: string;
  readonly rate: number;
  readonly since: Moment;
}

async function hold(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
  name: 'volume' | 'balancer',
): Promise<Stored> {
  const meta = syncedMeta(cluster, name, name);
  const isVolume = name === 'volume';
  const wanted = isVolume ? claimObject(meta, 'standard', `${SIZE}Gi`) : loadBalancerObject(meta);
  const { object } = await api.ensure(wanted);
  const ingress = [{ ip: '203.0.113.98', ipMode: 'VIP' }];
  const status = isVolume ? boundStatus(`${SIZE}Gi`) : { loadBalancer: { ingress } };
  const since = await momentOf(() => api.patch(`${objectPath(object)}/status`, { status }));
  return {
    cluster,
    name,
    object,
    since,
    kind: isVolume ? 'persistentvolumeclaims' : 'services',
    metric: isVolume ? 'tenant_storage_gb_hours' : 'tenant_lb_hours',
    rate: isVolume ? SIZE : 1,
  };
}

async function release(
  api: ApiClient,
  { cluster, name, object, kind, metric, rate, since }: Stored,
  afterMs: number,
): Promise<Undated> {
  await delay(afterMs);
  const path = objectPath(object);
  await api.patch(path, { metadata: { finalizers: null } });
  const gone = await momentOf(() => api.remove(path, 0));
  return {
    what: 'volumes and load balancers of tenant clusters uninstalled',
    name: `${name} of ${cluster.name}`,
    kind,
    accounts: [accountOf(tenantClusterId(cluster), name)],
    stretches: [{ metric, perHour: rate, from: since, to: gone }],
  };
}
