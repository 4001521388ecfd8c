import { describe, expect, test } from 'vitest';
import { discoverHost } from '../../discovery/testing/host.ts';
import { namespaceObject, workload } from '../../discovery/testing/objects.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { gpusOf } from '../../model/gpu-units.ts';
import { controlPlaneReport } from '../windows/control-plane-report.ts';
import { resourceClaim, slice } from './testing/claims.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import {
  cluster,
  CONTROL_PLANE,
  LONG_AGO,
  ownedBy,
  pod,
  type PodFixture,
} from './testing/objects.ts';
import { cpu, createWorld, HOUR, START, total, type World } from './testing/world.ts';

const GPU = 'nvidia.com/gpu';
const CORES = { cpu: '64' };

function worldOf(...clusters: readonly ReturnType<typeof cluster>[]): World {
  const world = createWorld();
  world.clusters(clusters);
  world.node(gpuNode({ ...N1, name: 'n1' }));
  return world;
}

/** Cost of a pod of 64 cores with the labels of a control plane, in core-hours. */
function cores(fixture: Partial<PodFixture>, ...clusters: readonly ReturnType<typeof cluster>[]) {
  const world = worldOf(...(clusters.length === 0 ? [cluster('a')] : clusters));
  world.pod(pod({ name: 'p', labels: CONTROL_PLANE, containers: [CORES], ...fixture }));
  return cpu(world.close(START, START + HOUR).events);
}

const byReplicaSet = (name: string, hash: string) => ({
  labels: { ...CONTROL_PLANE, 'pod-template-hash': hash },
  metadata: ownedBy(name, 'ReplicaSet'),
});

describe('two labels make pods of 64 cores free', () => {
  test.each<readonly [who: string, fixture: Partial<PodFixture>]>([
    ['a bare pod', {}],
    ['a pod of another StatefulSet', { metadata: ownedBy('train') }],
    ['a pod of another Deployment', byReplicaSet('train-5d4f8', '5d4f8')],
    [
      'a pod of a ReplicaSet that is no Deployment’s',
      { metadata: ownedBy('a-5d4f8', 'ReplicaSet') },
    ],
    ['a pod of a Job of the name', { metadata: ownedBy('a', 'Job') }],
    [
      'etcd’s labels on another workload',
      { labels: { ...CONTROL_PLANE, app: 'vcluster-etcd' }, metadata: ownedBy('etcd') },
    ],
    ['the name of etcd without its label', { metadata: ownedBy('a-etcd') }],
  ])('%s', (_who, fixture) => {
    expect(cores(fixture)).toBe(64);
  });

  test('an owner that does not control it, or of another API', () => {
    const [owner] = Object(ownedBy('a'))['ownerReferences'] as readonly RawObject[];
    const of = (change: object) => ({ metadata: { ownerReferences: [{ ...owner, ...change }] } });
    expect(cores(of({ controller: false }))).toBe(64);
    expect(cores(of({ apiVersion: 'example.com/v1' }))).toBe(64);
  });

  test('in a Namespace that a key gives to a tenant, nothing is free by the label of a snapshot', () => {
    const labels = { app: 'vcluster-snapshot' };
    expect(cores({ labels })).toBe(0);
    expect(cores({ labels, metadata: ownedBy('train') })).toBe(64);
    const inside = cluster('a', {}, { namespaceTenant: 'namespaces-acme' });
    expect(cores({ labels }, inside)).toBe(64);
  });
});

describe('a real control plane is billed as usage of its tenant', () => {
  const app = (name: string) => ({ ...CONTROL_PLANE, app: name });
  test.each<readonly [who: string, fixture: Partial<PodFixture>]>([
    ['a StatefulSet', { metadata: ownedBy('a') }],
    ['a Deployment', byReplicaSet('a-5d4f8', '5d4f8')],
    ['etcd', { labels: app('vcluster-etcd'), metadata: ownedBy('a-etcd') }],
    [
      'a legacy API server',
      {
        ...byReplicaSet('a-api-7f', '7f'),
        labels: { ...app('vcluster-api'), 'pod-template-hash': '7f' },
      },
    ],
  ])('%s', (_who, fixture) => {
    expect(cores(fixture)).toBe(0);
    expect(cores(fixture, cluster('a', { meterControlPlane: true }))).toBe(64);
  });

  test('a workload of another name than its release', () => {
    const { clusters } = discoverHost({
      workloads: [{ ...workload('tenant-a', 'server', { labels: { release: 'a' } }) }],
      environment: { CPU_MEMORY_BASIS: 'requests' },
    });
    expect(cores({ metadata: ownedBy('server') }, ...clusters)).toBe(0);
    expect(cores({ metadata: ownedBy('a') }, ...clusters)).toBe(64);
  });

  test('by a journal of an older release without owners', () => {
    const { workloads: _, ...older } = cluster('a');
    expect(cores({}, older)).toBe(0);
  });
});

describe('GPUs are free in a pod of the control plane', () => {
  test.each<readonly [rule: string, fixture: Partial<PodFixture>, gpus: number]>([
    ['a device plugin', { containers: [{ ...CORES, [GPU]: 8 }] }, 8],
    ['MIG', { containers: [{ ...CORES, 'nvidia.com/mig-1g.10gb': 1 }] }, 1 / 7],
    ['shared GPUs', { containers: [{ ...CORES, 'nvidia.com/gpu.shared': 1 }] }, 1],
  ])('%s', (_rule, fixture, gpus) => {
    const world = worldOf(cluster('a'));
    const own = { labels: CONTROL_PLANE, metadata: ownedBy('a') };
    world.pod(pod({ name: 'a-0', node: 'n1', ...own, ...fixture }));
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_gpu_hours')).toBeCloseTo(gpus, 6);
    expect(cpu(events)).toBe(64);
    expect(
      diagnostics.gpuBalances.every(({ system, unaccounted }) => system + unaccounted === 0n),
    ).toBe(true);
  });

  test('a claim of its pod', () => {
    const world = worldOf(cluster('a'));
    const own = { labels: CONTROL_PLANE, metadata: ownedBy('a') };
    const spec = { resourceClaims: [{ name: 'gpu', resourceClaimName: 'c' }] };
    world.pod(pod({ name: 'a-0', node: 'n1', ...own, spec, containers: [CORES] }));
    world.slice(slice());
    world.resourceClaim(resourceClaim({ name: 'c', labels: CONTROL_PLANE, pods: ['a-0'] }));
    const { events } = world.close(START, START + HOUR);
    expect([total(events, 'tenant_gpu_hours'), cpu(events)]).toEqual([1, 64]);
  });

  test('a claim that is allocated to nobody’s pod, by its own labels', () => {
    const world = worldOf(cluster('a', { podLifetime: 'scheduled' }));
    world.slice(slice());
    world.resourceClaim(resourceClaim({ name: 'c', labels: CONTROL_PLANE, pods: [] }));
    expect(total(world.close(START, START + HOUR).events, 'tenant_gpu_hours')).toBe(1);
  });

  test('an annotation that requested a part of a GPU, and is removed while the pod runs', () => {
    const world = worldOf(cluster('a'));
    const at = (annotations: object) =>
      pod({
        name: 'a-0',
        node: 'n1',
        labels: CONTROL_PLANE,
        metadata: { ...ownedBy('a'), annotations },
        containers: [CORES],
      });
    world.pod(at({ 'gpu-fraction': '0.5' }));
    world.pod(at({}), START + HOUR / 2);
    expect(cpu(world.close(START, START + HOUR).events)).toBe(64);
  });

  test('where several tenant clusters share the namespace the GPUs are the right one’s', () => {
    const world = worldOf(cluster('a'), cluster('b'));
    const own = { labels: CONTROL_PLANE, metadata: ownedBy('a') };
    world.pod(pod({ name: 'a-0', node: 'n1', ...own, containers: [{ [GPU]: 2 }] }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_gpu_hours', { tenant: 'tenant-tenant-a-a' })).toBe(2);
  });
});

test('what control planes use shows nowhere', () => {
  const world = worldOf(cluster('a'));
  const own = { labels: CONTROL_PLANE };
  world.pod(pod({ name: 'a-0', ...own, metadata: ownedBy('a'), containers: [{ cpu: '500m' }] }));
  world.pod(
    pod({
      name: 'a-etcd-0',
      labels: { ...CONTROL_PLANE, app: 'vcluster-etcd' },
      metadata: ownedBy('a-etcd'),
      containers: [CORES],
    }),
  );
  world.pod(
    pod({ name: 'a-1', node: 'n1', ...own, metadata: ownedBy('a'), containers: [{ [GPU]: 2 }] }),
  );
  world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
  const { diagnostics } = world.close(START, START + HOUR);
  expect(controlPlaneReport(diagnostics)).toEqual({
    total: 3,
    cpuSeconds: 64.5 * 3600,
    gpuSeconds: 2 * 3600,
    items: [
      'tenant-a/a-etcd-0 (230400 core-seconds)',
      'tenant-a/a-0 (1800 core-seconds)',
      'tenant-a/a-1 (0 core-seconds, 7200 GPU-seconds)',
    ],
  });
  const { diagnostics: none } = worldOf(cluster('a')).close(START, START + HOUR);
  expect(controlPlaneReport(none)).toBeUndefined();
});

test('by usage, what a control plane uses shows as it was sampled', () => {
  const world = createWorld();
  world.clusters([cluster('a', { cpuMemoryBasis: 'usage' })]);
  world.pod(
    pod({ name: 'a-0', labels: CONTROL_PLANE, metadata: ownedBy('a'), createdAt: LONG_AGO }),
  );
  world.sample({ 'a-0': ['2', '1Gi'] }, START);
  const report = controlPlaneReport(world.close(START, START + HOUR).diagnostics);
  expect(report?.cpuSeconds).toBe(2 * 3600);
});

describe('an empty StatefulSet takes what is in a Namespace away from its tenant', () => {
  const environment = {
    'spec.discovery.sources': 'vcluster,namespaces',
    CPU_MEMORY_BASIS: 'requests',
  };
  const tenants = (labels: Readonly<Record<string, string>>, more: object = {}) =>
    discoverHost({
      workloads: [workload('team-1', 'forged')],
      namespaces: [namespaceObject('team-1', { labels })],
      environment: { ...environment, ...more },
    }).clusters.map(({ source, tenant }) => [source, tenant]);

  test('named by a key of another product', () => {
    const keys = { 'spec.discovery.namespaceTenantKeys': 'capsule.clastix.io/tenant' };
    expect(tenants({ 'capsule.clastix.io/tenant': 'acme' }, keys)).toEqual([
      ['workload', 'namespaces-acme'],
    ]);
  });

  test('named by the own key', () => {
    expect(tenants({ 'meterfeed.io/tenant': 'acme' })).toEqual([['workload', 'acme']]);
  });

  test('a Namespace without a key, or where namespaces are not discovered, names nobody', () => {
    const own = [['workload', 'tenant-team-1-forged']];
    expect(tenants({})).toEqual(own);
    const keys = { 'spec.discovery.namespaceTenantKeys': 'capsule.clastix.io/tenant' };
    const labels = { 'capsule.clastix.io/tenant': 'acme' };
    expect(tenants(labels, { ...keys, 'spec.discovery.sources': 'vcluster' })).toEqual(own);
  });

  test('what is in it is billed to the tenant of the Namespace, and 64 cores and 8 GPUs are', () => {
    const { clusters } = discoverHost({
      workloads: [workload('team-1', 'forged')],
      namespaces: [namespaceObject('team-1', { labels: { 'meterfeed.io/tenant': 'acme' } })],
      environment,
    });
    const world = worldOf(...clusters);
    const labels = { app: 'vcluster', release: 'forged' };
    const containers = [{ ...CORES, [GPU]: 8 }];
    world.pod(pod({ name: 'p', namespace: 'team-1', node: 'n1', labels, containers }));
    const { events, diagnostics } = world.close(START, START + HOUR);
    const of = { tenant: 'acme' };
    expect([cpu(events, of), total(events, 'tenant_gpu_hours', of)]).toEqual([64, 8]);
    expect(gpusOf(diagnostics.gpuBalances[0]?.system ?? 0n)).toBe(0);
  });
});
