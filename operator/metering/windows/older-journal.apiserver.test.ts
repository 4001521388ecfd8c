import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { iso } from '../meters/testing/objects.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { STATE_KEY, TIMELINE_PREFIX } from './journal.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering, WINDOW_MS } from './testing/real-metering.ts';

const api = useTestCluster();
let connection: Connection;

beforeAll(() => {
  connection = connectWith(api.kubeconfig);
});

afterAll(async () => {
  await connection.close();
});

async function startPod(namespace: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const pod = await api.call('POST', path, {
    metadata: { name: 'p', labels: { 'vcluster.loft.sh/managed-by': 'a' } },
    spec: {
      nodeName: 'some-node',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '2' } } }],
    },
  });
  const state = { running: { startedAt: iso(Math.floor(Date.now() / 1000) * 1000) } };
  const containerStatuses = [
    { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state },
  ];
  const status = { phase: 'Running', containerStatuses };
  await api.call('PUT', `${path}/p/status`, { ...pod, status });
}

/** Rewrites the journal like a release that stored half of a pod's CPU. */
async function makeOlder(ledger: Ledger): Promise<void> {
  const changes: RecordChange[] = [];
  for (const kind of ['pod/', 'gpu-pod/']) {
    for await (const [key, text] of ledger.records(TIMELINE_PREFIX + kind)) {
      changes.push({ key, value: text.replaceAll('"2000000000"', '"1000000000"') });
    }
  }
  expect(changes).toHaveLength(1);
  const state = JSON.parse((await ledger.record(STATE_KEY)) ?? '{}') as Record<string, unknown>;
  delete state['projection'];
  await ledger.writeRecords([...changes, { key: STATE_KEY, value: JSON.stringify(state) }]);
}

/** Cores that the last window charged. */
async function coresAtTheEnd(ledger: Ledger): Promise<number> {
  const events = (await eventsOf(ledger)).filter(
    ({ metric }) => metric === 'tenant_cpu_core_hours',
  );
  return (Number(events.at(-1)?.quantity) * 3_600_000) / WINDOW_MS;
}

test('W36: what an older release took out of a pod is read again at the start, though the pod does not change', async () => {
  const namespace = await api.createNamespace('older');
  const ledger = createMemoryLedger();
  const start = () => startRealMetering({ connection, namespace, ledger });
  const first = await start();
  while (first.collector.lastWindow === undefined) await systemClock.sleep(50);
  await startPod(namespace);
  const begun = Date.now();
  while ((first.collector.lastWindow?.start ?? 0) < begun) await systemClock.sleep(50);
  await first.stop();
  expect(await coresAtTheEnd(ledger)).toBeCloseTo(2, 3);
  await makeOlder(ledger);
  const second = await start();
  const restarted = Date.now() + 2 * WINDOW_MS;
  while ((second.collector.lastWindow?.start ?? 0) < restarted) await systemClock.sleep(50);
  await second.stop();
  expect(await coresAtTheEnd(ledger)).toBeCloseTo(2, 3);
}, 60_000);
