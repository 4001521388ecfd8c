import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { iso } from '../meters/testing/objects.ts';
import { isRecord } from '../../model/is-record.ts';
import type { UsageEvent } from '../../model/event.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering } from './testing/real-metering.ts';

const api = useTestCluster();
let connection: Connection;
let namespace: string;
let events: readonly UsageEvent[];
const times = { stopped: 0, begun: 0, finished: 0 };

const sleep = (ms: number) => systemClock.sleep(ms);
const pods = (name = '') => `/api/v1/namespaces/${namespace}/pods${name && `/${name}`}`;

/** The clock of one of several API servers is this far behind the others and the kubelets. */
const BEHIND_MS = 4_000;

/** Answers as if the API server with the late clock had handled all writes during the stop. */
function withFalseDates(of: Connection): Connection {
  const stream: Connection['stream'] = async (path, options) => {
    const outcome = await of.stream(path, options);
    return outcome.kind === 'ok' ? { kind: 'ok', lines: dated(outcome.lines) } : outcome;
  };
  return new Proxy(of, {
    get: (target, name) => {
      if (name === 'stream') return stream;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

async function* dated(lines: AsyncIterable<string>): AsyncIterable<string> {
  for await (const line of lines) yield JSON.stringify(JSON.parse(line, putBack));
}

/** Changes only dates that API servers set on objects. */
function putBack(this: unknown, key: string, value: unknown): unknown {
  const isOwn = key === 'creationTimestamp' || (key === 'time' && isManager(this));
  const time = isOwn && typeof value === 'string' ? Date.parse(value) : 0;
  return time > times.stopped ? iso(time - BEHIND_MS) : value;
}

function isManager(value: unknown): boolean {
  return isRecord(value) && 'fieldsType' in value;
}

const statusOf = (phase: string, state: object) => ({
  phase,
  containerStatuses: [
    { name: 'c', image: 'i', imageID: 'i', ready: false, restartCount: 0, state },
  ],
});

async function startPod(name: string): Promise<number> {
  const pod = await api.call('POST', pods(), {
    metadata: { name, labels: { 'vcluster.loft.sh/managed-by': 'a' } },
    spec: {
      nodeName: 'some-node',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  // Dates are of whole seconds.
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const status = statusOf('Running', { running: { startedAt: iso(startedAt) } });
  await api.call('PUT', `${pods(name)}/status`, { ...pod, status });
  return startedAt;
}

async function finishPod(name: string, startedAt: number): Promise<number> {
  const pod = await api.call('GET', pods(name));
  const finishedAt = Math.floor(Date.now() / 1000) * 1000;
  const ran = { startedAt: iso(startedAt), finishedAt: iso(finishedAt) };
  const status = statusOf('Succeeded', { terminated: { exitCode: 0, ...ran } });
  await api.call('PUT', `${pods(name)}/status`, { ...pod, status });
  return finishedAt;
}

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('false-dates');
  const ledger = createMemoryLedger();
  const start = () =>
    startRealMetering({ connection: withFalseDates(connection), namespace, ledger });
  times.stopped = Number.POSITIVE_INFINITY;
  const first = await start();
  while (first.collector.lastWindow === undefined) await sleep(50);
  times.begun = await startPod('finishes');
  await sleep(1_500);
  await first.stop();
  times.stopped = Date.now();
  await sleep(3_000);
  times.finished = await finishPod('finishes', times.begun);
  // A pod that begins right afterwards bounds the time of all older writes.
  await api.call('POST', pods(), {
    metadata: { name: 'begins', labels: {} },
    spec: { containers: [{ name: 'c', image: 'i' }] },
  });
  await sleep(2_000);
  const second = await start();
  const done = Date.now() + 2_000;
  while ((second.collector.lastWindow?.end ?? 0) < done) await sleep(50);
  await second.stop();
  events = (await eventsOf(ledger)).filter(({ metric }) => metric === 'tenant_cpu_core_hours');
}, 60_000);

afterAll(() => connection.close());

test('W37: a pod that finished while no process watched is billed to when it says, though an API server’s clock was behind', () => {
  const seconds = events.reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
  expect(seconds).toBeCloseTo((times.finished - times.begun) / 1000, 4);
});
