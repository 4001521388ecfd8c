import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { microTime } from '../kubernetes/resource.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { iso } from '../metering/testing/objects.ts';
import type { UsageEvent } from '../model/event.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { STATE_KEY } from './journal.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering } from './testing/real-metering.ts';

const api = useTestCluster();
let connection: Connection;
let namespace: string;
let events: readonly UsageEvent[];
let asked = 0;
const times = { stopped: 0, told: 0, gone: 0, allGone: 0 };
/** When each pod began, by its namespace inside of the tenant cluster. */
const begun = new Map<string, number>();
const uids = new Map<string, string>();

const sleep = (ms: number) => systemClock.sleep(ms);
const pods = (name = '') => `/api/v1/namespaces/${namespace}/pods${name && `/${name}`}`;

async function startPod(name: string, own = name): Promise<void> {
  const labels = { 'vcluster.loft.sh/managed-by': 'a', 'vcluster.loft.sh/namespace': own };
  const containers = [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }];
  const spec = { nodeName: 'some-node', terminationGracePeriodSeconds: 0, containers };
  const pod = await api.call('POST', pods(), { metadata: { name, labels }, spec });
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const state = { running: { startedAt: iso(startedAt) } };
  const told = { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state };
  const status = { phase: 'Running', containerStatuses: [told] };
  await api.call('PUT', `${pods(name)}/status`, { ...pod, status });
  const { uid } = pod['metadata'] as { readonly uid: string };
  begun.set(own, startedAt);
  uids.set(name, uid);
}

const referenceTo = (name: string, uid = uids.get(name) ?? '') => ({
  apiVersion: 'v1',
  kind: 'Pod',
  namespace,
  name,
  uid,
});

/** As kubelets and the taint eviction controller write it, in whole seconds. */
async function tell(
  name: string,
  reason: string,
  component: string,
  uid = uids.get(name),
): Promise<void> {
  const now = iso(Date.now());
  await api.call('POST', `/api/v1/namespaces/${namespace}/events`, {
    metadata: { generateName: `${name}-` },
    involvedObject: { ...referenceTo(name, uid), fieldPath: 'spec.containers{c}' },
    reason,
    message: 'Stopping container c',
    source: { component, host: 'some-node' },
    firstTimestamp: now,
    lastTimestamp: now,
    count: 1,
    type: 'Normal',
    reportingComponent: component,
    reportingInstance: 'some-node',
  });
}

/** As the scheduler writes it, of the newer kind of Event. */
async function tellPreempted(name: string): Promise<void> {
  await api.call('POST', `/apis/events.k8s.io/v1/namespaces/${namespace}/events`, {
    metadata: { generateName: `${name}-`, namespace },
    regarding: referenceTo(name),
    reason: 'Preempted',
    action: 'Preempting',
    note: 'Preempted by pod 1 on node some-node',
    eventTime: microTime(Date.now()),
    type: 'Normal',
    reportingController: 'default-scheduler',
    reportingInstance: 'default-scheduler-1',
  });
}

/** Whatever the API server remembers, the pods are listed at the next start. */
async function forgetVersions(ledger: Ledger): Promise<void> {
  const state = JSON.parse((await ledger.record(STATE_KEY)) ?? '{}') as Record<string, unknown>;
  delete state['projection'];
  await ledger.writeRecords([{ key: STATE_KEY, value: JSON.stringify(state) }]);
}

const NAMES = ['killed', 'preempted', 'tainted', 'silent', 'mistaken', 'replaced', 'stays'];

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  const request: Connection['request'] = (path, options) => {
    if (path.endsWith('/events')) asked += 1;
    return connection.request(path, options);
  };
  const counting = new Proxy(connection, {
    get: (target, name) => {
      if (name === 'request') return request;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  namespace = await api.createNamespace('told');
  const ledger = createMemoryLedger();
  const start = () =>
    startRealMetering({
      connection: counting,
      namespace,
      ledger,
      metering: { meterByNamespace: true },
    });
  const first = await start();
  while (first.collector.lastWindow === undefined) await sleep(50);
  await Promise.all(NAMES.map((name) => startPod(name)));
  await sleep(1_500);
  await first.stop();
  times.stopped = Date.now();
  await forgetVersions(ledger);
  await sleep(3_000);
  times.told = Date.now();
  await Promise.all([
    tell('killed', 'Killing', 'kubelet'),
    tellPreempted('preempted'),
    tell('tainted', 'TaintManagerEviction', 'taint-eviction-controller'),
    tell('silent', 'Pulled', 'kubelet'),
    tell('mistaken', 'Killing', 'kubelet', '00000000-0000-0000-0000-000000000000'),
    tell('replaced', 'Killing', 'kubelet'),
    tell('stays', 'Killing', 'kubelet'),
  ]);
  await sleep(1_500);
  times.gone = Date.now();
  const going = NAMES.filter((name) => name !== 'stays');
  await Promise.all(going.map((name) => api.call('DELETE', pods(name))));
  times.allGone = Date.now();
  await startPod('replaced', 'successor');
  await sleep(2_000);
  const second = await start();
  const done = Date.now() + 2_000;
  while ((second.collector.lastWindow?.end ?? 0) < done) await sleep(50);
  await second.stop();
  events = (await eventsOf(ledger)).filter(({ metric }) => metric === 'tenant_cpu_core_hours');
}, 60_000);

afterAll(async () => {
  await connection.close();
});

const ofPod = (name: string) =>
  events.filter(({ dimensions }) => dimensions?.['namespace'] === name);

/** Milliseconds since the epoch to which a pod is billed. */
function billedTo(name: string): number {
  const hours = ofPod(name).reduce((sum, { quantity }) => sum + Number(quantity), 0);
  return (begun.get(name) ?? Number.NaN) + hours * 3_600_000;
}

/** Times of Events are cut to whole seconds; quantities are rounded. */
const SECOND = 1_000;
const ROUNDING = 10;

test.each([
  ['a kubelet that it was about to kill', 'killed', 'Killing'],
  ['the scheduler that it made room', 'preempted', 'Preempted'],
  ['a controller that its node is tainted', 'tainted', 'TaintManagerEviction'],
  ['a kubelet, and whose name another one has by now', 'replaced', 'Killing'],
])(
  'W26: a pod that is missing in a list, and of which it was said by %s, is billed to that moment at the least',
  (_, name, reason) => {
    expect(billedTo(name)).toBeGreaterThanOrEqual(times.told - SECOND - ROUNDING);
    expect(billedTo(name)).toBeLessThanOrEqual(times.gone + ROUNDING);
    const last = ofPod(name).at(-1)?.properties;
    expect(last).toMatchObject({ ended_by_event: reason });
    const rest = (times.allGone - billedTo(name)) / 1000;
    expect(Number(last?.['uncertain_seconds'])).toBeGreaterThanOrEqual(rest - 1);
  },
);

test.each([['silent'], ['mistaken']])(
  'an Event that does not say that it was about to end, or is of another pod, dates nothing: %s',
  (name) => {
    expect(billedTo(name)).toBeLessThanOrEqual(times.stopped + ROUNDING);
    expect(ofPod(name).flatMap(({ properties }) => properties?.['ended_by_event'] ?? [])).toEqual(
      [],
    );
  },
);

test('what is still there is not asked about, and nothing but pods is', () => {
  expect(asked).toBe(NAMES.length - 1);
  expect(billedTo('stays')).toBeGreaterThan(times.allGone + SECOND);
  expect(billedTo('successor')).toBeGreaterThan(times.allGone + SECOND);
});
