import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { Explanations } from '../explanations/explanations.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { iso } from '../meters/testing/objects.ts';
import { total } from '../meters/testing/world.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering, WINDOW_MS } from './testing/real-metering.ts';

const api = useTestCluster();
let connection: Connection;
let namespace: string;

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('tenant');
});

afterAll(async () => {
  await connection.close();
});

const sleep = (ms: number) => systemClock.sleep(ms);
const path = (plural: string, name = '') =>
  `/api/v1/namespaces/${namespace}/${plural}${name === '' ? '' : `/${name}`}`;

/** Runs a pod like a kubelet. Returns for how many whole seconds it ran by its API times. */
async function runPod(name: string, forMs: number, removed: boolean): Promise<number> {
  await api.call('POST', path('pods'), {
    metadata: { name, labels: { 'vcluster.loft.sh/managed-by': 'a' } },
    spec: {
      nodeName: 'some-node',
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  const status = async (phase: string, state: object) => {
    const pod = await api.call('GET', path('pods', name));
    const containerStatuses = [
      { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state },
    ];
    await api.call('PUT', `${path('pods', name)}/status`, {
      ...pod,
      status: { phase, containerStatuses },
    });
  };
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  await status('Running', { running: { startedAt: iso(startedAt) } });
  await sleep(forMs);
  const finishedAt = Math.floor(Date.now() / 1000) * 1000;
  const times = { startedAt: iso(startedAt), finishedAt: iso(finishedAt), exitCode: 0 };
  await status('Succeeded', { terminated: times });
  if (removed) await api.call('DELETE', path('pods', name));
  return (finishedAt - startedAt) / 1000;
}

test('every second between the API times of pods is billed once, over a restart too', async () => {
  const ledger = createMemoryLedger();
  const explanationsOf = () =>
    new Explanations(ledger, { find: async () => undefined }, systemClock, createCapturingLogger());
  const first = await startRealMetering({
    connection,
    namespace,
    ledger,
    explanations: explanationsOf(),
  });
  while (first.collector.lastWindow === undefined) await sleep(50);

  const pods: Promise<number>[] = [];
  const begin = async (from: number, to: number): Promise<void> => {
    for (let index = from; index < to; index += 1) {
      pods.push(runPod(`p${index}`, 500 + (index % 7) * 600, index % 2 === 0));
      await sleep(120);
    }
  };
  await begin(0, 12);
  await first.stop();
  // Pods come, go and are removed while no process watches.
  await begin(12, 24);
  const explanations = explanationsOf();
  const second = await startRealMetering({ connection, namespace, ledger, explanations });
  await begin(24, 30);
  const seconds = (await Promise.all(pods)).reduce((sum, one) => sum + one, 0);
  const done = Date.now();
  while ((second.collector.lastWindow?.end ?? 0) < done + WINDOW_MS) await sleep(50);
  await second.stop();

  const events = await eventsOf(ledger);
  const cpu = events.filter((event) => event.metric === 'tenant_cpu_core_hours');
  const billed = total(cpu, 'tenant_cpu_core_hours') * 3600;
  // Each event is rounded once, by half a nano core-hour at most.
  expect(Math.abs(billed - seconds)).toBeLessThanOrEqual(cpu.length * 0.5e-9 * 3600 + 1e-9);
  expect(seconds).toBeGreaterThan(30);
  const ends = cpu.map((event) => event.window_end);
  expect(new Set(ends).size).toBe(ends.length);

  // Each number has an explanation, also those from before the restart.
  for (const event of cpu) {
    const found = await explanations.find(event);
    if (found.kind === 'gone') throw new Error(`${event.window_end}: ${found.reason}`);
    const { shares, subjects, givenBack } = found.explanation;
    const sum = shares.reduce((all, [, , , , , , quantity]) => all + quantity, givenBack);
    const rounding = (shares.length + 1) * 0.5e-9 + 1e-12;
    expect(Math.abs(sum - Number(event.quantity))).toBeLessThanOrEqual(rounding);
    expect(subjects).toContainEqual(
      expect.objectContaining({
        kind: 'Pod',
        namespace,
        ownedBy: 'vcluster.loft.sh/managed-by=a',
        requests: { cpu: 1, memoryGib: 0 },
      }),
    );
  }
});

/** No controller runs that would remove the finalizer of a claim in use. */
async function removeClaim(name: string): Promise<void> {
  const { metadata, ...claim } = await api.call('GET', path('persistentvolumeclaims', name));
  const free = { ...(metadata as object), finalizers: [] };
  await api.call('PUT', path('persistentvolumeclaims', name), { ...claim, metadata: free });
  await api.call('DELETE', path('persistentvolumeclaims', name));
}

const NEWS_S = 1;

test('a control plane, a disk and a load balancer are billed from their status to their deletion', async () => {
  const ledger = createMemoryLedger();
  const metering = await startRealMetering({ connection, namespace, ledger });
  while (metering.collector.lastWindow === undefined) await sleep(50);
  const labels = { 'vcluster.loft.sh/managed-by': 'a' };

  const set = '/apis/apps/v1/namespaces/' + namespace + '/statefulsets';
  const own = { app: 'vcluster', release: 'a' };
  const stateful = await api.call('POST', set, {
    metadata: { name: 'a', labels: own },
    spec: {
      serviceName: 'a',
      replicas: 1,
      selector: { matchLabels: own },
      template: {
        metadata: { labels: own },
        spec: { containers: [{ name: 'c', image: 'i' }] },
      },
    },
  });
  const claim = await api.call('POST', path('persistentvolumeclaims'), {
    metadata: { name: 'v', labels },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'fast',
      resources: { requests: { storage: '1Gi' } },
    },
  });
  const service = await api.call('POST', path('services'), {
    metadata: { name: 's', labels },
    spec: { type: 'LoadBalancer', ports: [{ port: 80 }] },
  });
  await sleep(200);
  const begun = Date.now();
  await Promise.all([
    api.call('PUT', `${set}/a/status`, { ...stateful, status: { replicas: 1, readyReplicas: 1 } }),
    api.call('PUT', `${path('persistentvolumeclaims', 'v')}/status`, {
      ...claim,
      status: { phase: 'Bound', capacity: { storage: '2Gi' } },
    }),
    api.call('PUT', `${path('services', 's')}/status`, {
      ...service,
      status: { loadBalancer: { ingress: [{ ip: '192.0.2.7' }] } },
    }),
  ]);
  const allBegun = Date.now();
  await sleep(1500);
  const ended = Date.now();
  await Promise.all([
    api.call('DELETE', `${set}/a`),
    removeClaim('v'),
    api.call('DELETE', path('services', 's')),
  ]);
  const done = Date.now();
  while ((metering.collector.lastWindow?.end ?? 0) < done) await sleep(50);
  await metering.stop();

  const events = await eventsOf(ledger);
  const secondsOf = (metric: string, units: number) => (total(events, metric) * 3600) / units;
  for (const seconds of [
    secondsOf('tenant_instance_hours', 1),
    secondsOf('tenant_storage_gb_hours', 2),
    secondsOf('tenant_lb_hours', 1),
  ]) {
    // Neither end has a time in the API. The arrival of the news counts, which may take a moment.
    expect(seconds).toBeGreaterThan((ended - allBegun) / 1000 - NEWS_S);
    expect(seconds).toBeLessThan((done - begun) / 1000 + NEWS_S);
  }
});
