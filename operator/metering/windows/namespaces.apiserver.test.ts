import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { createSource } from '../../kubernetes/namespaced-source.ts';
import type { Projected, Projection, SourceHandler } from '../../kubernetes/source.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster as tenantCluster, iso } from '../meters/testing/objects.ts';
import {
  projectLoadBalancer,
  projectVolumeClaim,
  projectWorkload,
} from '../timelines/retained-objects.ts';
import { hostNamespace } from '../../discovery/views.ts';
import { projectNode } from '../timelines/node.ts';
import { createObservation } from '../timelines/observation.ts';
import { forGpuPods, projectPod } from '../timelines/pod.ts';
import { projectResourceClaim } from '../timelines/resource-claim.ts';
import { projectResourceSlice } from '../timelines/resource-slice.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createCollectorMetrics } from './collector-metrics.ts';
import { Collector } from './collector.ts';
import { restoreJournal } from './journal.ts';
import { createPodMetricsReader } from './pod-metrics.ts';
import { eventsOf, settingsOf } from './testing/harness.ts';
import { NO_TENANT_OBJECTS } from './testing/no-tenant-objects.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const USER = 'namespace-reader';
const READ = ['get', 'list', 'watch'];
const NAMESPACED = [
  { apiGroups: [''], resources: ['persistentvolumeclaims', 'services'], verbs: READ },
  { apiGroups: ['apps'], resources: ['statefulsets'], verbs: READ },
  { apiGroups: ['resource.k8s.io'], resources: ['resourceclaims'], verbs: READ },
];
const PODS = { apiGroups: [''], resources: ['pods'], verbs: READ };

const api = useTestCluster();
let connection: Connection;
let allowed: string;
let forbidden: string;

/** Lets the user read in a namespace, or in none. */
async function bind(name: string, rules: readonly object[], namespace?: string): Promise<void> {
  const kind = namespace === undefined ? 'ClusterRole' : 'Role';
  const plural = `${kind.toLowerCase()}s`;
  const place = namespace === undefined ? RBAC : `${RBAC}/namespaces/${namespace}`;
  await api.call('POST', `${place}/${plural}`, { metadata: { name }, rules });
  await api.call('POST', `${place}/${kind.toLowerCase()}bindings`, {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: USER }],
  });
}

async function runPod(namespace: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  await api.call('POST', path, {
    metadata: { name: 'p', labels: { 'vcluster.loft.sh/managed-by': 'a' } },
    spec: {
      nodeName: 'some-node',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  const pod = await api.call('GET', `${path}/p`);
  const state = { running: { startedAt: iso(Math.floor(Date.now() / 1000) * 1000) } };
  const containerStatuses = [
    { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state },
  ];
  await api.call('PUT', `${path}/p/status`, {
    ...pod,
    status: { phase: 'Running', containerStatuses },
  });
}

beforeAll(async () => {
  allowed = await api.createNamespace('allowed');
  forbidden = await api.createNamespace('forbidden');
  connection = connectWith(await api.addUser(USER));
  await bind('namespaces-nodes', [
    { apiGroups: [''], resources: ['nodes'], verbs: READ },
    { apiGroups: ['resource.k8s.io'], resources: ['resourceslices'], verbs: READ },
  ]);
  await bind('reader', [...NAMESPACED, PODS], allowed);
  await bind('reader', NAMESPACED, forbidden);
  for (const namespace of [allowed, forbidden]) await runPod(namespace);
});

afterAll(async () => {
  await connection.close();
  for (const plural of ['clusterroles', 'clusterrolebindings']) {
    await api.call('DELETE', `${RBAC}/${plural}/namespaces-nodes`);
  }
});

/** Meters both namespaces with separate watches. */
async function startMetering() {
  const logger = createCapturingLogger();
  const ledger = createMemoryLedger();
  const base = settingsOf({});
  const metering = { ...base.metering, windowMs: 1_000, settlingDelayMs: 400 };
  const observation = createObservation({
    nodeSettings: () => metering,
    billedUntil: (present) => present,
  });
  const stop = new AbortController();
  const running: Promise<unknown>[] = [];
  const arrivals = new QueuedArrivals(logger);
  const watch = <T extends Projected>(
    plural: string,
    project: Projection<T>,
    handlers: readonly SourceHandler<T>[],
    group = '',
  ) => {
    const isClusterScoped = ['nodes', 'resourceslices', 'namespaces'].includes(plural);
    const source = createSource<T>({
      connection,
      resource: { group, version: 'v1', plural },
      namespaces: isClusterScoped ? [] : [allowed, forbidden],
      project,
      handlers,
      arrivals,
      clock: systemClock,
      random: Math.random,
      logger,
      timings: { resumeSettling: 200, backoffCap: 1_000 },
    });
    running.push(source.run(stop.signal));
    return source;
  };
  const { pods, gpuPods, nodes, gpuNodes, volumes, loadBalancers, workloads } = observation;
  const dra = 'resource.k8s.io';
  const collector = new Collector({
    observation,
    tenants: NO_TENANT_OBJECTS,
    arrivals,
    restored: await restoreJournal(ledger, observation, { logger, clock: systemClock }),
    sources: {
      pods: watch('pods', projectPod, [pods, forGpuPods(gpuPods)]),
      nodes: watch('nodes', projectNode, [nodes, gpuNodes]),
      resourceClaims: watch(
        'resourceclaims',
        projectResourceClaim,
        [observation.resourceClaims],
        dra,
      ),
      resourceSlices: watch(
        'resourceslices',
        projectResourceSlice,
        [observation.resourceSlices],
        dra,
      ),
      volumes: watch('persistentvolumeclaims', projectVolumeClaim, [volumes]),
      loadBalancers: watch('services', projectLoadBalancer, [loadBalancers]),
      workloads: [watch('statefulsets', projectWorkload, [workloads], 'apps')],
      namespaces: watch('namespaces', hostNamespace('meterfeed.io'), [observation.namespaces]),
    },
    ledger,
    settings: () => ({ ...base, metering }),
    podMetrics: createPodMetricsReader(connection),
    clock: systemClock,
    random: Math.random,
    logger,
    metrics: createCollectorMetrics(new Registry()),
    explanations: { recordsFor: async () => [] },
  });
  const createdAt = Date.now() - 3_600_000;
  const clusters = [allowed, forbidden].map((namespace) =>
    tenantCluster('a', {}, { namespace, createdAt }),
  );
  observation.tenantClusters.observe(clusters, Date.now());
  running.push(collector.run(stop.signal));
  return {
    collector,
    logger,
    /** The windows in which the pods of a namespace were billed, with the quantity. */
    billed: async (namespace: string): Promise<string[]> =>
      (await eventsOf(ledger))
        .filter(({ metric }) => metric === 'tenant_cpu_core_hours')
        .filter(({ dimensions }) => dimensions?.['tenant_cluster']?.includes(namespace) === true)
        .map(({ window_end, quantity }) => `${window_end} ${quantity}`),
    stop: async () => {
      stop.abort();
      await Promise.all(running);
    },
  };
}

test('a namespace whose pods the API server forbids holds nobody else’s windows, and is billed when it is allowed', async () => {
  const { collector, logger, billed, stop } = await startMetering();
  const patience = { timeout: 60_000, interval: 100 };
  await expect.poll(async () => (await billed(allowed)).length, patience).toBeGreaterThan(4);
  expect(await billed(forbidden)).toEqual([]);
  expect(logger.lines.join()).toContain('403');
  const gaps = collector.gaps().filter(({ scope }) => scope.includes(forbidden));
  expect(gaps.map(({ source }) => source).toSorted()).toEqual(['gpus', 'pods']);
  expect(collector.gaps()).toHaveLength(2);

  await bind('pods-reader', [PODS], forbidden);
  await expect.poll(() => collector.gaps(), patience).toEqual([]);
  const soFar = (await billed(allowed)).length;
  await expect.poll(async () => (await billed(forbidden)).length, patience).toBeGreaterThan(soFar);
  const [others, own] = [await billed(allowed), await billed(forbidden)];
  const common = Math.min(others.length, own.length);
  expect(own.slice(0, common)).toEqual(others.slice(0, common));
  expect(new Set(own).size).toBe(own.length);
  await stop();
}, 180_000);
