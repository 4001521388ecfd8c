import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { type KubeObject, type ObjectMeta, objectPath } from '../simulator/objects.ts';
import {
  acceptPod,
  containerTimes,
  finishContainers,
  runContainers,
  runInitContainer,
} from '../simulator/pod-lifecycle.ts';
import { podObject } from '../simulator/pods.ts';
import { syncedMeta } from '../simulator/synced.ts';
import { type GpuMode, GPUS_PER_POD } from './modes.ts';
import { addClaim, removeClaim, reserveClaim } from './nodes.ts';
import {
  accountOf,
  exactly,
  type Moment,
  momentOf,
  type Stretch,
  type Undated,
} from './undated.ts';

/** What really happened to one pod: times as the API told them, and what it asked for. */
export interface PodLife {
  readonly name: string;
  readonly tenantCluster: string;
  /** Milliseconds since the epoch, whole seconds: the first start of a container. */
  readonly startedAt: number;
  /** The last finish of a container. */
  readonly finishedAt: number;
  /** When the final status was written, and when the object was gone; our clock. */
  readonly finishReported: number;
  readonly removedAt: number;
  /** When its claim was gone, for one that had one. */
  readonly claimRemovedAt?: number;
  readonly shape: Shape;
  readonly node: string;
  /** The way in which it held nine GPUs; undefined when it held none. */
  readonly mode?: GpuMode;
  /** When its namespace label changed, by our clock: nothing in the API says when. */
  readonly relabelledAt?: number;
}

/** Its life as the API dates it, or, of one that was deleted by force, as we know it. */
export type PodEnd =
  | { readonly kind: 'dated'; readonly life: PodLife }
  | { readonly kind: 'undated'; readonly undated: Undated };

/**
 * Requests of which each second is a whole number of billionths of an hour, so that the nine
 * decimals of an event lose nothing.
 */
export interface Shape {
  readonly cpu: string;
  readonly memory: string;
  readonly cores: number;
  readonly gib: number;
}

export const SHAPES: readonly [Shape, Shape, Shape] = [
  { cpu: '3600m', memory: '36Gi', cores: 3.6, gib: 36 },
  { cpu: '1800m', memory: '9Gi', cores: 1.8, gib: 9 },
  { cpu: '9', memory: '18Gi', cores: 9, gib: 18 },
];

/** Namespaces inside the tenant cluster are the pod's own, so that its charges can be told apart. */
export const namespaceOf = (pod: string): string => `of-${pod}`;
export const laterNamespaceOf = (pod: string): string => `then-${pod}`;

/** Where a pod runs, and how it is given GPUs there. */
export interface Place {
  readonly node: string;
  readonly mode?: GpuMode;
  readonly flaky?: true;
  /** Which devices it is given, where they are given by name. */
  readonly slot?: number;
}

export interface PodPlan {
  readonly name: string;
  readonly cluster: SimulatedTenantCluster;
  /** The host namespace that the tenant cluster's syncer has mapped; its own without. */
  readonly mapped?: string;
  readonly place: Place;
  readonly shape: Shape;
  /** From the kubelet's taking it to its first start, milliseconds. */
  readonly waitMs: number;
  /** How long its init container runs; absent without one. */
  readonly initMs?: number;
  /** Its container runs until this resolves. */
  readonly runs: (pod: RunningPod) => Promise<void>;
  /** `forced`: it goes without a word about its containers. */
  readonly ending: 'finishes' | 'deleted' | 'forced';
  /** How long its object is looked at once it has finished. */
  readonly keptMs: number;
}

/** What may be changed about a pod while it runs. */
export interface RunningPod {
  readonly label: (labels: Readonly<Record<string, string>>) => Promise<void>;
  /** Gives it another namespace inside its tenant cluster. */
  readonly relabel: () => Promise<void>;
  /** In place, of a pod without GPUs: granted and in use at once. */
  readonly resize: (to: Shape) => Promise<void>;
}

const GRACE_SECONDS = 30;

/** Lets a pod live as it is planned; gives what has happened. */
export async function livePod(api: ApiClient, plan: PodPlan): Promise<PodEnd> {
  const { name, place, shape, ending } = plan;
  const { pod, claim } = await createPod(api, plan);
  const path = objectPath(pod);
  await startPod(api, pod, plan);
  let relabelledAt: number | undefined;
  const label: RunningPod['label'] = async (labels) => {
    await api.patch(path, { metadata: { labels } });
  };
  const relabel = async (): Promise<void> => {
    await label({ 'vcluster.loft.sh/namespace': laterNamespaceOf(name) });
    relabelledAt = Date.now();
  };
  const resize: RunningPod['resize'] = (to) => resizePod(api, pod, to);
  await plan.runs({ label, relabel, resize });
  if (ending === 'deleted') await api.remove(path, GRACE_SECONDS);
  const { mainStartedAt, firstStartedAt = '' } = await readTimes(api, path);
  if (mainStartedAt === undefined) throw new Error(`${name}: no start in its status`);
  const { node, mode } = place;
  if (ending === 'forced') {
    const end = await momentOf(() => api.remove(path, 0));
    if (claim !== undefined) await removeClaim(api, claim);
    const accounts = [accountOf(tenantClusterId(plan.cluster), namespaceOf(name))];
    const stretches = podStretches(shape, mode, exactly(Date.parse(firstStartedAt)), end);
    const what = 'pods deleted by force';
    return { kind: 'undated', undated: { what, name, kind: 'pods', accounts, stretches } };
  }
  await finishContainers(api, pod, mainStartedAt, Date.now());
  const finishReported = Date.now();
  const { finishedAt = '' } = await readTimes(api, path);
  // A kubelet removes at once what was deleted; what ended by itself stays to be looked at.
  if (ending === 'finishes') await delay(plan.keptMs);
  await api.remove(path, 0);
  const removedAt = Date.now();
  if (claim !== undefined) await removeClaim(api, claim);
  const life = {
    name,
    tenantCluster: tenantClusterId(plan.cluster),
    startedAt: Date.parse(firstStartedAt),
    finishedAt: Date.parse(finishedAt),
    finishReported,
    removedAt,
    shape,
    node,
    ...(claim === undefined ? {} : { claimRemovedAt: Date.now() }),
    mode,
    relabelledAt,
  };
  return { kind: 'dated', life };
}

/** What a pod holds while it runs. */
export function podStretches(
  { cores, gib }: Shape,
  mode: GpuMode | undefined,
  from: Moment,
  to: Moment,
): readonly Stretch[] {
  const gpus = { metric: 'tenant_gpu_hours', perHour: GPUS_PER_POD, from, to };
  return [
    { metric: 'tenant_cpu_core_hours', perHour: cores, from, to },
    { metric: 'tenant_memory_gb_hours', perHour: gib, from, to },
    ...(mode === undefined ? [] : [gpus]),
  ];
}

async function createPod(
  api: ApiClient,
  plan: PodPlan,
): Promise<{ readonly pod: KubeObject; readonly claim?: KubeObject }> {
  const { shape, place } = plan;
  const { node, mode, slot } = place;
  const meta = metaOf(plan);
  const annotations = { ...meta.annotations, ...mode?.podAnnotations?.(slot ?? 0) };
  const requests = { cpu: shape.cpu, memory: shape.memory, ...mode?.requests };
  const withInit = plan.initMs !== undefined;
  const wanted = podObject({ ...meta, annotations }, node, requests, 'Never', withInit);
  if (mode?.claims === undefined || slot === undefined) {
    return { pod: (await api.ensure(wanted)).object };
  }
  const claimMeta = { ...meta, name: `${plan.name}-gpus` };
  const claim = await addClaim(api, claimMeta, node, mode.claims, slot);
  const { object: pod } = await api.ensure(using(wanted, claim));
  await reserveClaim(api, claim, pod);
  return { pod, claim };
}

/** In a mapped namespace labels are what the tenant has written, and decide nothing. */
function metaOf({ name, cluster, mapped }: PodPlan): ObjectMeta {
  const meta = syncedMeta(cluster, name, namespaceOf(name));
  if (mapped === undefined) return meta;
  const labels = { ...meta.labels, 'vcluster.loft.sh/managed-by': 'somebody-else' };
  return { ...meta, name, namespace: mapped, labels };
}

/** As the kubelet grants it; the API server lets nobody resize a pod of which none has said what it was granted. */
async function resizePod(api: ApiClient, pod: KubeObject, { cpu, memory }: Shape): Promise<void> {
  const path = objectPath(pod);
  const containers = (pod.spec?.['containers'] ?? []) as readonly { readonly resources: Granted }[];
  await grant(api, path, containers[0]?.resources ?? {});
  const resources: Granted = { requests: { cpu, memory } };
  const resized = containers.map((container) => ({ ...container, resources }));
  await api.patch(`${path}/resize`, { spec: { containers: resized } });
  await grant(api, path, resources);
}

interface Granted {
  readonly requests?: Readonly<Record<string, string>>;
}

async function grant(api: ApiClient, path: string, resources: Granted): Promise<void> {
  const found = await api.get(path);
  const statuses = (found?.status?.['containerStatuses'] ?? []) as readonly object[];
  const { requests: allocatedResources } = resources;
  const containerStatuses = statuses.map((one) => ({ ...one, resources, allocatedResources }));
  await api.patch(`${path}/status`, { status: { containerStatuses } });
}

async function startPod(
  api: ApiClient,
  pod: KubeObject,
  { waitMs, initMs }: PodPlan,
): Promise<void> {
  await acceptPod(api, pod, Date.now());
  await delay(waitMs);
  let initStartedAt: number | undefined;
  if (initMs !== undefined) {
    initStartedAt = Date.now();
    await runInitContainer(api, pod, initStartedAt);
    await delay(initMs);
  }
  await runContainers(api, pod, Date.now(), initStartedAt);
}

function using(pod: KubeObject, claim: KubeObject): KubeObject {
  const [container] = (pod.spec?.['containers'] ?? []) as readonly { readonly resources: object }[];
  const resources = { ...container?.resources, claims: [{ name: 'gpus' }] };
  const resourceClaims = [{ name: 'gpus', resourceClaimName: claim.metadata.name }];
  return {
    ...pod,
    spec: { ...pod.spec, resourceClaims, containers: [{ ...container, resources }] },
  };
}

/** None of a pod that is gone. */
async function readTimes(api: ApiClient, path: string): Promise<ReturnType<typeof containerTimes>> {
  const found = await api.get(path);
  return found === undefined ? {} : containerTimes(found);
}
