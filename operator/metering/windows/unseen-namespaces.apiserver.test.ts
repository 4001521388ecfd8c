import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { iso } from '../meters/testing/objects.ts';
import type { UsageEvent } from '../../model/event.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering } from './testing/real-metering.ts';

const api = useOwnTestCluster();
let connection: Connection;
let home: string;
let events: readonly UsageEvent[];
/** Moments of the run, milliseconds since the epoch. */
const times = { stopped: 0, changed: 0, allChanged: 0, ended: 0 };
/** Start of each pod's container, and its end if it ended; whole seconds. */
const begun = new Map<string, number>();
const finished = new Map<string, number>();

const sleep = (ms: number) => systemClock.sleep(ms);
const labelsOf = (release: string) => ({
  'vcluster.loft.sh/vcluster-name': release,
  'vcluster.loft.sh/vcluster-namespace': home,
});

/**
 * Adds a pod of one core in a separate namespace, named like the namespace inside the tenant
 * cluster.
 */
async function addNamespace(name: string, owner?: string): Promise<void> {
  const labels = owner === undefined ? {} : labelsOf(owner);
  await api.call('POST', '/api/v1/namespaces', { metadata: { name, labels } });
  // Its container's date has whole seconds and is later than the namespace.
  await sleep(1_000);
  const pods = `/api/v1/namespaces/${name}/pods`;
  const pod = await api.call('POST', pods, {
    metadata: { name: 'pod', labels: { 'vcluster.loft.sh/namespace': name } },
    spec: {
      nodeName: 'n1',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  const at = Math.floor(Date.now() / 1000) * 1000;
  begun.set(name, at);
  const state = { running: { startedAt: iso(at) } };
  await api.call('PUT', `${pods}/pod/status`, { ...pod, status: statusOf('Running', state) });
}

function statusOf(phase: string, state: object): object {
  const container = { name: 'c', image: 'i', imageID: 'i', ready: false, restartCount: 0, state };
  return { phase, startTime: iso(Date.now()), containerStatuses: [container] };
}

/** Its container ends, and the pod is deleted. */
async function endPod(name: string): Promise<void> {
  const path = `/api/v1/namespaces/${name}/pods/pod`;
  const at = Math.floor(Date.now() / 1000) * 1000;
  finished.set(name, at);
  const times = { startedAt: iso(begun.get(name) ?? at), finishedAt: iso(at) };
  const pod = await api.call('GET', path);
  const status = statusOf('Succeeded', { terminated: { exitCode: 0, ...times } });
  await api.call('PUT', `${path}/status`, { ...pod, status });
  await api.call('DELETE', `${path}?gracePeriodSeconds=0`);
}

async function relabel(name: string, owner?: string): Promise<void> {
  const namespace = await api.call('GET', `/api/v1/namespaces/${name}`);
  const labels = owner === undefined ? {} : labelsOf(owner);
  const metadata = { ...(namespace['metadata'] as object), labels };
  await api.call('PUT', `/api/v1/namespaces/${name}`, { ...namespace, metadata });
}

/** No namespace controller runs. */
async function removeNamespace(name: string): Promise<void> {
  await endPod(name);
  await api.call('DELETE', `/api/v1/namespaces/${name}`);
  const metadata = { name };
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata, spec: { finalizers: [] } };
  await api.call('PUT', `/api/v1/namespaces/${name}/finalize`, body);
}

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  home = await api.createNamespace('home');
  const ledger = createMemoryLedger();
  const start = () =>
    startRealMetering({
      connection,
      namespace: home,
      ledger,
      metering: { meterByNamespace: true },
      releases: ['a', 'b'],
      withMapped: true,
    });
  const first = await start();
  while (first.collector.lastWindow === undefined) await sleep(50);
  await Promise.all([
    ...['lost', 'sold', 'removed'].map((name) => addNamespace(name, 'a')),
    addNamespace('gained'),
  ]);
  await sleep(2_500);
  await first.stop();
  times.stopped = Date.now();
  await sleep(2_400);
  times.changed = Date.now();
  await Promise.all([
    relabel('lost'),
    relabel('sold', 'b'),
    relabel('gained', 'b'),
    removeNamespace('removed'),
    addNamespace('added', 'a'),
  ]);
  times.allChanged = Date.now();
  await sleep(4_000);
  const second = await start();
  await sleep(1_500);
  await Promise.all(['lost', 'sold', 'gained', 'added'].map(endPod));
  times.ended = Date.now();
  while ((second.collector.lastWindow?.end ?? 0) < times.ended + 2_000) await sleep(50);
  await second.stop();
  events = await eventsOf(ledger);
}, 60_000);

afterAll(() => connection.close());

/** Core-seconds that a tenant cluster is billed for the one pod of a namespace. */
function billed(name: string, release: string): number {
  return events
    .filter(({ metric }) => metric === 'tenant_cpu_core_hours')
    .filter(({ dimensions }) => dimensions?.['tenant_cluster'] === `tenant-${home}-${release}`)
    .filter(({ dimensions }) => dimensions?.['namespace'] === name)
    .reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
}

/** The largest uncertainty of its events, seconds. */
function uncertain(name: string, release: string): number {
  return Math.max(
    0,
    ...events
      .filter(({ dimensions }) => dimensions?.['namespace'] === name)
      .filter(({ dimensions }) => dimensions?.['tenant_cluster'] === `tenant-${home}-${release}`)
      .map(({ properties }) => Number(properties?.['uncertain_seconds'] ?? 0)),
  );
}

const secondsOf = (name: string, to: number): number =>
  (to - (begun.get(name) ?? Number.NaN)) / 1000;
const end = (name: string): number => finished.get(name) ?? Number.NaN;

/** Time of the last news before a stop. No later window is closed. */
const NEWS_S = 3;

test.each([
  ['W28: a namespace that was mapped no more', 'lost'],
  ['W29: a namespace that changed hands', 'sold'],
])(
  '%s while nobody looked is its first tenant cluster’s to when that was last known, and no further',
  (_, name) => {
    const seconds = billed(name, 'a');
    expect(seconds).toBeLessThanOrEqual(secondsOf(name, times.allChanged));
    expect(seconds).toBeGreaterThanOrEqual(secondsOf(name, times.stopped) - NEWS_S);
  },
);

test.each([
  ['W29: a namespace that changed hands', 'sold'],
  ['W30: a namespace that was mapped', 'gained'],
])(
  '%s while nobody looked is its second tenant cluster’s no earlier than it was, and how far off that is comes to it',
  (_, name) => {
    const seconds = billed(name, 'b');
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual((end(name) - times.changed) / 1000);
    const truth = (end(name) - times.allChanged) / 1000;
    expect(seconds + uncertain(name, 'b')).toBeGreaterThanOrEqual(truth);
  },
);

test('W31: what was in a namespace that went while no process watched is billed by its own times', () => {
  expect(billed('removed', 'a')).toBeCloseTo(secondsOf('removed', end('removed')), 4);
});

test('W32: what is in a namespace that came while no process watched is billed by its own times', () => {
  expect(billed('added', 'a')).toBeCloseTo(secondsOf('added', end('added')), 4);
});
