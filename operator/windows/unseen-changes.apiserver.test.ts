import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { iso } from '../metering/testing/objects.ts';
import type { UsageEvent } from '../model/event.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering } from './testing/real-metering.ts';

const api = useTestCluster();
let connection: Connection;
let namespace: string;
let events: readonly UsageEvent[];
/** Moments of the run, milliseconds since the epoch. */
const times = { stopped: 0, changed: 0, allChanged: 0, restarted: 0 };
/** When each object began, before the news of it. */
const begun = new Map<string, number>();

const sleep = (ms: number) => systemClock.sleep(ms);
const path = (plural: string, name = '') =>
  `/api/v1/namespaces/${namespace}/${plural}${name === '' ? '' : `/${name}`}`;
/** Each object is billed apart, by its namespace inside of the tenant cluster. */
const labelsOf = (name: string) => ({
  'vcluster.loft.sh/managed-by': 'a',
  'vcluster.loft.sh/namespace': name,
});

async function startPod(name: string): Promise<void> {
  const pod = await api.call('POST', path('pods'), {
    metadata: { name, labels: labelsOf(name) },
    spec: {
      nodeName: 'some-node',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const state = { running: { startedAt: iso(startedAt) } };
  const containerStatuses = [
    { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state },
  ];
  const status = { phase: 'Running', containerStatuses };
  await api.call('PUT', `${path('pods', name)}/status`, { ...pod, status });
  begun.set(name, startedAt);
}

/** As `kubectl delete --force` does: nobody says when its containers ended. */
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
  // Nothing else takes off the finalizer that protects a claim in use.
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

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('unseen');
  const ledger = createMemoryLedger();
  const start = () =>
    startRealMetering({ connection, namespace, ledger, metering: { meterByNamespace: true } });
  const first = await start();
  while (first.collector.lastWindow === undefined) await sleep(50);
  await Promise.all([
    ...['killed', 'moved', 'kept'].map(startPod),
    ...['removed', 'grown', 'shrunk'].map(startVolume),
    startBalancer('unbalanced'),
  ]);
  await sleep(1_500);
  // Each watch is heard of once more, which proves that nothing has happened until then.
  await Promise.all([startPod('last'), startVolume('last'), startBalancer('last')]);
  await sleep(200);
  await first.stop();
  times.stopped = Date.now();
  await sleep(1_000);
  await startPod('brief');
  // Somebody writes pods all the time, which says when everything else was written.
  for (let beat = 0; beat < 8; beat += 1) {
    await sleep(300);
    await movePod('last', `last-${beat}`);
  }
  times.changed = Date.now();
  await Promise.all([
    killPod('killed'),
    killPod('brief'),
    movePod('moved', 'elsewhere'),
    removeVolume('removed'),
    resize('grown', '6Gi'),
    resize('shrunk', '1Gi'),
    api.call('DELETE', path('services', 'unbalanced')),
  ]);
  times.allChanged = Date.now();
  await sleep(5_000);
  times.restarted = Date.now();
  const second = await start();
  const done = Date.now() + 2_000;
  while ((second.collector.lastWindow?.end ?? 0) < done) await sleep(50);
  await second.stop();
  events = await eventsOf(ledger);
}, 60_000);

afterAll(async () => {
  await connection.close();
});

/** Seconds that are billed of one object, or GiB-seconds of a volume. */
function billed(name: string): number {
  const metrics = ['tenant_cpu_core_hours', 'tenant_storage_gb_hours', 'tenant_lb_hours'];
  return events
    .filter(
      ({ metric, dimensions }) => metrics.includes(metric) && dimensions?.['namespace'] === name,
    )
    .reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
}

function lifeUntil(name: string, moment: number): number {
  return (moment - (begun.get(name) ?? Number.NaN)) / 1000;
}

/** Dates are of whole seconds, and what they bound lies between them. */
const WRITTEN_S = 2;

/** What is told of a start takes a moment; so does what is told before a stop. */
const NEWS_S = 2;

test.each([
  ['W16: a pod that was killed by force while nobody looked', 'killed', 1],
  ['W17: a pod whose owner changed while nobody looked is its first owner’s', 'moved', 1],
  ['W18: a volume that went while nobody looked', 'removed', 2],
  ['W19: a load balancer that went while nobody looked', 'unbalanced', 1],
])(
  '%s is billed to the moment when it went, within two seconds, and no further',
  (_, name, units) => {
    const seconds = billed(name) / units;
    expect(seconds).toBeLessThanOrEqual(lifeUntil(name, times.allChanged));
    expect(seconds).toBeGreaterThanOrEqual(lifeUntil(name, times.changed) - WRITTEN_S);
  },
);

test('W20: a pod that lived only while nobody looked and was killed by force is not billed beyond its life', () => {
  expect(billed('brief')).toBeLessThanOrEqual(lifeUntil('brief', times.allChanged));
});

test('an event says how far off it may be where nobody saw an end, and only there', () => {
  const uncertain = (name: string) =>
    events
      .filter(({ dimensions }) => dimensions?.['namespace'] === name)
      .flatMap(({ properties }) => properties?.['uncertain_seconds'] ?? []);
  for (const name of ['killed', 'removed', 'unbalanced']) {
    const widths = uncertain(name).map(Number);
    expect(widths.length, name).toBeGreaterThan(0);
    expect(Math.max(...widths), name).toBeLessThanOrEqual(
      (times.restarted - times.stopped) / 1000 + 5,
    );
  }
  expect(uncertain('kept')).toEqual([]);
});

test('W21: a volume that grew while nobody looked is billed its new size from when it is known to have it', () => {
  const all = lifeUntil('grown', Date.now());
  expect(billed('grown')).toBeGreaterThan(2 * lifeUntil('grown', times.restarted));
  expect(billed('grown')).toBeLessThanOrEqual(2 * all + 4 * ((Date.now() - times.changed) / 1000));
});

test('W22: a volume that shrank while nobody looked is billed its old size no longer than it had it', () => {
  const { stopped, changed, restarted } = times;
  const before = lifeUntil('shrunk', changed);
  const after = (Date.now() - changed) / 1000;
  expect(billed('shrunk')).toBeLessThanOrEqual(2 * before + after);
  const least = 2 * lifeUntil('shrunk', stopped) + (restarted - stopped) / 1000;
  expect(billed('shrunk')).toBeGreaterThanOrEqual(least - 2 * NEWS_S);
});

test('W17: a pod whose owner changed while nobody looked is its second owner’s from then on only', () => {
  expect(billed('elsewhere')).toBeGreaterThan(0);
  const since = (Date.now() - times.changed) / 1000;
  expect(billed('elsewhere')).toBeLessThanOrEqual(since + WRITTEN_S);
});
