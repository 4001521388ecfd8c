import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { iso } from '../meters/testing/objects.ts';
import type { UsageEvent } from '../../model/event.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { SETTLING_MS, startRealMetering, WINDOW_MS } from './testing/real-metering.ts';

const api = useTestCluster();
let connection: Connection;
let namespace: string;
let events: readonly UsageEvent[];
/** Moments of the run, milliseconds since the epoch. */
const times = { stopped: 0, changed: 0, allChanged: 0, restarted: 0, abandoned: 0 };
/** When each object began, before the watch sent it. */
const begun = new Map<string, number>();
/** When objects with an end time ended. */
const finished = new Map<string, number>();

const sleep = (ms: number) => systemClock.sleep(ms);
const path = (plural: string, name = '') =>
  `/api/v1/namespaces/${namespace}/${plural}${name === '' ? '' : `/${name}`}`;
/** Each object has separate events, by its namespace inside the tenant cluster. */
const labelsOf = (name: string) => ({
  'vcluster.loft.sh/managed-by': UNINSTALLED.includes(name) ? 'd' : 'a',
  'vcluster.loft.sh/namespace': name,
});
/** The objects that the uninstalled tenant cluster left behind. */
const UNINSTALLED = ['abandoned', 'left'];

interface Amounts {
  readonly cpu: string;
  readonly memory?: string;
}

/** Adds a ready node: pods are only resized on a ready one. */
async function addNode(name: string): Promise<void> {
  const amounts = { cpu: '16', memory: '64Gi', pods: '100' };
  const node = await api.call('POST', '/api/v1/nodes', { metadata: { name } });
  const { metadata } = await api.call('PUT', `/api/v1/nodes/${name}`, {
    ...node,
    spec: { taints: [] },
  });
  const conditions = [{ type: 'Ready', status: 'True' }];
  const status = { capacity: amounts, allocatable: amounts, conditions };
  await api.call('PUT', `/api/v1/nodes/${name}/status`, { ...node, metadata, status });
}

async function startPod(
  name: string,
  requests: Amounts = { cpu: '1' },
  nodeName = 'some-node',
): Promise<void> {
  const pod = await api.call('POST', path('pods'), {
    metadata: { name, labels: labelsOf(name) },
    spec: {
      nodeName,
      containers: [{ name: 'c', image: 'i', resources: { requests } }],
    },
  });
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const state = { running: { startedAt: iso(startedAt) } };
  const reported = { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state };
  const granted = { resources: { requests }, allocatedResources: requests };
  const status = { phase: 'Running', containerStatuses: [{ ...reported, ...granted }] };
  await api.call('PUT', `${path('pods', name)}/status`, { ...pod, status });
  begun.set(name, startedAt);
}

/** Resizes in place: the request comes first, and the kubelet grants it a moment later. */
async function resizePod(name: string, requests: Amounts): Promise<void> {
  const { spec, ...pod } = await api.call('GET', path('pods', name));
  const { containers } = spec as { readonly containers: readonly object[] };
  const resized = containers.map((container) => ({ ...container, resources: { requests } }));
  const requested = { ...pod, spec: { ...(spec as object), containers: resized } };
  const { status, ...rest } = await api.call('PUT', `${path('pods', name)}/resize`, requested);
  const { containerStatuses } = status as { readonly containerStatuses: readonly object[] };
  const granted = { resources: { requests }, allocatedResources: requests };
  const statuses = containerStatuses.map((one) => ({ ...one, ...granted }));
  const reported = { ...(status as object), containerStatuses: statuses };
  await api.call('PUT', `${path('pods', name)}/status`, { ...rest, status: reported });
}

/** Its container ends by itself, and the kubelet reports when. */
async function finishPod(name: string): Promise<void> {
  const { status, ...pod } = await api.call('GET', path('pods', name));
  const { containerStatuses } = status as { readonly containerStatuses: readonly object[] };
  const startedAt = begun.get(name) ?? Number.NaN;
  // Dates are of whole seconds.
  const finishedAt = Math.floor(Date.now() / 1000) * 1000;
  const state = {
    terminated: { exitCode: 0, startedAt: iso(startedAt), finishedAt: iso(finishedAt) },
  };
  const statuses = containerStatuses.map((one) => ({ ...one, ready: false, state }));
  const reported = { ...(status as object), phase: 'Succeeded', containerStatuses: statuses };
  await api.call('PUT', `${path('pods', name)}/status`, { ...pod, status: reported });
  finished.set(name, finishedAt);
}

/** Like `kubectl delete --force`: nobody reports when its containers ended. */
async function killPod(name: string): Promise<void> {
  await api.call('DELETE', `${path('pods', name)}?gracePeriodSeconds=0`);
}

async function movePod(name: string, to: string): Promise<void> {
  const { metadata, ...pod } = await api.call('GET', path('pods', name));
  const moved = { ...(metadata as object), labels: labelsOf(to) };
  await api.call('PUT', path('pods', name), { ...pod, metadata: moved });
}

async function startVolume(name: string): Promise<void> {
  await api.call('POST', path('persistentvolumeclaims'), {
    metadata: { name, labels: labelsOf(name) },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'fast',
      resources: { requests: { storage: '1Gi' } },
    },
  });
  begun.set(name, Date.now());
  await resize(name, '2Gi');
}

async function resize(name: string, storage: string): Promise<void> {
  const claim = await api.call('GET', path('persistentvolumeclaims', name));
  const status = { phase: 'Bound', capacity: { storage } };
  await api.call('PUT', `${path('persistentvolumeclaims', name)}/status`, { ...claim, status });
}

async function removeVolume(name: string): Promise<void> {
  const { metadata, ...claim } = await api.call('GET', path('persistentvolumeclaims', name));
  // No controller runs that would remove the finalizer of a claim in use.
  const free = { ...(metadata as object), finalizers: [] };
  await api.call('PUT', path('persistentvolumeclaims', name), { ...claim, metadata: free });
  await api.call('DELETE', path('persistentvolumeclaims', name));
}

async function startBalancer(name: string): Promise<void> {
  const service = await api.call('POST', path('services'), {
    metadata: { name, labels: labelsOf(name) },
    spec: { type: 'LoadBalancer', ports: [{ port: 80 }] },
  });
  begun.set(name, Date.now());
  const status = { loadBalancer: { ingress: [{ ip: '192.0.2.7' }] } };
  await api.call('PUT', `${path('services', name)}/status`, { ...service, status });
}

/** A workload of a tenant cluster's control plane. */
async function startWorkload(plural: string, release: string): Promise<void> {
  const all = `/apis/apps/v1/namespaces/${namespace}/${plural}`;
  const labels = { app: 'vcluster', release };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: 'c', image: 'i' }] },
  };
  const workload = await api.call('POST', all, {
    metadata: { name: `${release}-${plural}`, labels },
    spec: { replicas: 1, selector: { matchLabels: labels }, template, serviceName: release },
  });
  const status = { replicas: 1, readyReplicas: 1, availableReplicas: 1 };
  const { name } = workload['metadata'] as { name: string };
  begun.set(release, Date.now());
  await api.call('PUT', `${all}/${name}/status`, { ...workload, status });
}

async function removeWorkload(plural: string, release: string): Promise<void> {
  const name = `${release}-${plural}`;
  await api.call('DELETE', `/apis/apps/v1/namespaces/${namespace}/${plural}/${name}`);
}

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('unseen');
  await addNode(namespace);
  const ledger = createMemoryLedger();
  const start = (...releases: readonly string[]) =>
    startRealMetering({
      connection,
      namespace,
      ledger,
      metering: { meterByNamespace: true },
      releases: ['a', 'b', 'c', ...releases],
    });
  const first = await start('d');
  while (first.collector.lastWindow === undefined) await sleep(50);
  await Promise.all([
    ...['killed', 'moved', 'kept'].map((name) => startPod(name)),
    startPod('abandoned'),
    startPod('resized', { cpu: '4', memory: '1Gi' }, namespace),
    ...['removed', 'grown', 'shrunk', 'left'].map(startVolume),
    startBalancer('unbalanced'),
    startWorkload('statefulsets', 'b'),
    startWorkload('deployments', 'c'),
  ]);
  await sleep(1_500);
  // One more object for each watch proves that nothing else happened until then.
  await Promise.all([startPod('last'), startVolume('last'), startBalancer('last')]);
  await Promise.all(['statefulsets', 'deployments'].map((each) => startWorkload(each, 'last')));
  await sleep(200);
  await first.stop();
  times.stopped = Date.now();
  await sleep(1_000);
  await startPod('brief');
  await startPod('dated');
  await sleep(2_400);
  await finishPod('dated');
  await killPod('dated');
  times.changed = Date.now();
  await Promise.all([
    killPod('killed'),
    killPod('brief'),
    movePod('moved', 'elsewhere'),
    removeVolume('removed'),
    removeVolume('left'),
    resize('grown', '6Gi'),
    resize('shrunk', '1Gi'),
    resizePod('resized', { cpu: '1', memory: '2Gi' }),
    api.call('DELETE', path('services', 'unbalanced')),
    removeWorkload('statefulsets', 'b'),
    removeWorkload('deployments', 'c'),
  ]);
  times.allChanged = Date.now();
  await sleep(5_000);
  times.restarted = Date.now();
  const second = await start();
  await sleep(4_000);
  await killPod('abandoned');
  times.abandoned = Date.now();
  const done = Date.now() + 2_000;
  while ((second.collector.lastWindow?.end ?? 0) < done) await sleep(50);
  await second.stop();
  events = await eventsOf(ledger);
}, 60_000);

afterAll(async () => {
  await api.call('DELETE', `/api/v1/nodes/${namespace}`);
  await connection.close();
});

const OF_PODS = 'tenant_cpu_core_hours';

/** Billed seconds of one object, core-seconds of a pod, or GiB-seconds of a volume. */
function billed(
  name: string,
  metrics = [OF_PODS, 'tenant_storage_gb_hours', 'tenant_lb_hours'],
): number {
  return events
    .filter(
      ({ metric, dimensions }) => metrics.includes(metric) && dimensions?.['namespace'] === name,
    )
    .reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
}

function isInstanceOf({ metric, dimensions }: UsageEvent, release: string): boolean {
  const id = `tenant-${namespace}-${release}`;
  return metric === 'tenant_instance_hours' && dimensions?.['tenant_cluster'] === id;
}

/** Seconds of instance hours. */
function instanceSeconds(release: string): number {
  return events
    .filter((event) => isInstanceOf(event, release))
    .reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
}

/** The largest uncertainty of these events, seconds; 0 if none has one. */
function uncertain(isOf: (event: UsageEvent) => boolean): number {
  const widths = events.filter(isOf).map(({ properties }) => properties?.['uncertain_seconds']);
  return Math.max(0, ...widths.map((width) => Number(width ?? 0)));
}

function lifeUntil(name: string, moment: number): number {
  return (moment - (begun.get(name) ?? Number.NaN)) / 1000;
}

/** The news of a start or a stop takes this long. */
const NEWS_S = 2;
/**
 * An end in the last window has no event with an uncertainty, and a window is closed a while after
 * its end.
 */
const UNSAID_S = (WINDOW_MS + SETTLING_MS) / 1000;

test.each([
  ['W16: a pod that was killed by force while nobody looked', 'killed', 1],
  ['W17: a pod whose owner changed while nobody looked is its first owner’s', 'moved', 1],
  ['W18: a volume that went while nobody looked', 'removed', 2],
  ['W27: a volume of a tenant cluster that was uninstalled while nobody looked', 'left', 2],
  ['W19: a load balancer that went while nobody looked', 'unbalanced', 1],
])(
  '%s is billed to when it was last known to be there, and how far off that is comes to its life',
  (_, name, units) => {
    const seconds = billed(name) / units;
    expect(seconds).toBeLessThanOrEqual(lifeUntil(name, times.allChanged));
    expect(seconds).toBeGreaterThanOrEqual(lifeUntil(name, times.stopped) - NEWS_S);
    const widest = uncertain(({ dimensions }) => dimensions?.['namespace'] === name);
    expect(seconds + widest).toBeGreaterThanOrEqual(lifeUntil(name, times.changed));
  },
);

test.each([
  ['StatefulSet', 'b'],
  ['Deployment', 'c'],
])(
  'W24: a tenant cluster whose %s went while nobody looked is billed to when that was last there, and how far off that is comes to its life',
  (_, release) => {
    const seconds = instanceSeconds(release);
    expect(seconds).toBeLessThanOrEqual(lifeUntil(release, times.allChanged));
    expect(seconds).toBeGreaterThanOrEqual(lifeUntil(release, times.stopped) - NEWS_S);
    const widest = uncertain((event) => isInstanceOf(event, release));
    expect(seconds + widest).toBeGreaterThanOrEqual(lifeUntil(release, times.changed));
  },
);

test('W27: a pod of a tenant cluster that was uninstalled while no process watched is billed until it is gone', () => {
  const life = lifeUntil('abandoned', times.abandoned);
  expect(billed('abandoned')).toBeLessThanOrEqual(life);
  // It is deleted while the watch still catches up, so closed windows have nothing of the unwatched
  // time.
  const widest = uncertain(({ dimensions }) => dimensions?.['namespace'] === 'abandoned');
  expect(billed('abandoned') + widest).toBeGreaterThanOrEqual(life - UNSAID_S);
});

test('W20: a pod that lived only while no process watched and was killed by force is not billed beyond its life', () => {
  expect(billed('brief')).toBeLessThanOrEqual(lifeUntil('brief', times.allChanged));
});

test('W23: a pod that began and ended while no process watched is billed between its own times', () => {
  expect(billed('dated')).toBeCloseTo(lifeUntil('dated', finished.get('dated') ?? 0), 4);
});

test('an event states its uncertainty if no process saw an end, and only then', () => {
  const widestOf = (name: string) =>
    uncertain(({ dimensions }) => dimensions?.['namespace'] === name);
  for (const name of ['killed', 'removed', 'unbalanced']) {
    expect(widestOf(name), name).toBeGreaterThan(0);
    expect(widestOf(name), name).toBeLessThanOrEqual((times.restarted - times.stopped) / 1000 + 5);
  }
  expect(widestOf('kept')).toBe(0);
});

test('W21: a volume that grew while no process watched is billed its new size from when it is known to have it', () => {
  const all = lifeUntil('grown', Date.now());
  expect(billed('grown')).toBeGreaterThan(2 * lifeUntil('grown', times.restarted));
  expect(billed('grown')).toBeLessThanOrEqual(2 * all + 4 * ((Date.now() - times.changed) / 1000));
});

test('W22: a volume that shrank while no process watched is billed its old size no longer than it had it', () => {
  const { stopped, changed, restarted } = times;
  const before = lifeUntil('shrunk', changed);
  const after = (Date.now() - changed) / 1000;
  expect(billed('shrunk')).toBeLessThanOrEqual(2 * before + after);
  const least = 2 * lifeUntil('shrunk', stopped) + (restarted - stopped) / 1000;
  expect(billed('shrunk')).toBeGreaterThanOrEqual(least - 2 * NEWS_S);
});

test('W25: a pod that was given fewer cores and more memory while no process watched is billed neither beyond what it had', () => {
  const { stopped, changed, allChanged, restarted } = times;
  const end = Math.max(...events.map(({ window_end }) => Date.parse(window_end)));
  const before = lifeUntil('resized', changed);
  const after = (end - changed) / 1000;
  const during = (allChanged - changed) / 1000;
  const cpu = billed('resized', [OF_PODS]);
  expect(cpu).toBeLessThanOrEqual(4 * (before + during) + after);
  const least = 4 * lifeUntil('resized', stopped) + (end - stopped) / 1000;
  expect(cpu).toBeGreaterThanOrEqual(least - 4 * NEWS_S);
  const memory = billed('resized', ['tenant_memory_gb_hours']);
  expect(memory).toBeLessThanOrEqual(before + 2 * after);
  expect(memory).toBeGreaterThanOrEqual(before + 2 * ((end - restarted) / 1000));
});

test('W17: a pod whose owner changed while no process watched is its second owner’s only where it is not its first’s', () => {
  const end = Math.max(...events.map(({ window_end }) => Date.parse(window_end)));
  expect(billed('elsewhere')).toBeGreaterThanOrEqual((end - times.restarted) / 1000 - NEWS_S);
  // Both belong to one tenant cluster.
  expect(billed('moved') + billed('elsewhere')).toBeCloseTo(lifeUntil('moved', end), 3);
});
