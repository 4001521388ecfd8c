import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { iso } from '../meters/testing/objects.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering } from './testing/real-metering.ts';

const METRICS = new URL('../../../e2e/simulator/manifests/metrics.yaml', import.meta.url);

const api = useOwnTestCluster();
let connection: Connection;

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  await api.installCRDs(fileURLToPath(METRICS));
});

afterAll(() => connection.close());

/** Runs a pod that requests one core and uses three according to the metrics API. */
async function runPod(namespace: string): Promise<number> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const requests = { cpu: '1', memory: '1Gi' };
  const pod = await api.call('POST', path, {
    metadata: { name: 'imported' },
    spec: { nodeName: 'n1', containers: [{ name: 'c', image: 'i', resources: { requests } }] },
  });
  const usage = { cpu: '3', memory: '2Gi' };
  await api.call('POST', `/apis/metrics.k8s.io/v1beta1/namespaces/${namespace}/pods`, {
    apiVersion: 'metrics.k8s.io/v1beta1',
    kind: 'PodMetrics',
    metadata: { name: 'imported' },
    timestamp: iso(Date.now()),
    window: '15s',
    containers: [{ name: 'c', usage }],
  });
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const state = { running: { startedAt: iso(startedAt) } };
  const status = {
    phase: 'Running',
    containerStatuses: [
      { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state },
    ],
  };
  await api.call('PUT', `${path}/imported/status`, { ...pod, status });
  return startedAt;
}

test('C34: what the metrics API says of a pod in a namespace that a syncer maps is billed to its tenant cluster', async () => {
  const home = await api.createNamespace('home');
  const team = await api.createNamespace('team', {
    'vcluster.loft.sh/vcluster-name': 'a',
    'vcluster.loft.sh/vcluster-namespace': home,
  });
  const startedAt = await runPod(team);
  const ledger = createMemoryLedger();
  const metering = await startRealMetering({
    connection,
    namespace: home,
    ledger,
    metering: { cpuMemoryBasis: 'usage' },
    withMapped: true,
  });
  const sampled = startedAt + 4_000;
  while ((metering.collector.lastWindow?.start ?? 0) < sampled) await systemClock.sleep(50);
  await metering.stop();
  const events = await eventsOf(ledger);
  const owners = events.map(({ dimensions }) => dimensions?.['tenant_cluster']);
  expect(new Set(owners)).toEqual(new Set([`tenant-${home}-a`]));
  // A late reading leaves a part of a window out. None adds to it.
  const most = (name: string): number =>
    Math.max(
      0,
      ...events.flatMap(({ metric, quantity }) => (metric === name ? [Number(quantity)] : [])),
    );
  expect(most('tenant_cpu_core_hours') * 3600).toBeCloseTo(3, 3);
  expect(most('tenant_memory_gb_hours') * 3600).toBeCloseTo(2, 3);
}, 60_000);
