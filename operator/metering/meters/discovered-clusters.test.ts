import { describe, expect, test } from 'vitest';
import { discoverHost, type Host } from '../../discovery/testing/host.ts';
import { instance, namespaceObject, workload as found } from '../../discovery/testing/objects.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { SYNCED_LABELS, pod, workload } from './testing/objects.ts';
import { createWorld, HOUR, START } from './testing/world.ts';

/** Charges of an hour: tenant, tenant cluster, project, metric and quantity of each event. */
function hourOf(host: Host, objects: { pods?: RawObject[]; workloads?: RawObject[] }) {
  const world = createWorld();
  world.clusters(discoverHost(host).clusters);
  world.node(gpuNode(N1));
  for (const object of objects.workloads ?? []) world.workload(object);
  for (const object of objects.pods ?? []) world.pod(object);
  const { events } = world.close(START, START + HOUR);
  return events
    .map(({ tenant, dimensions, project, metric, quantity }) =>
      [tenant, dimensions?.['tenant_cluster'], project, metric, Number(quantity)].join(' '),
    )
    .toSorted();
}

/** A pod of tenant cluster `x`. */
const gpuPod = (namespace: string): RawObject =>
  pod({
    name: 'p',
    namespace,
    node: 'n1',
    labels: { ...SYNCED_LABELS, 'vcluster.loft.sh/managed-by': 'x' },
    containers: [{ 'nvidia.com/gpu': 1 }],
  });

const HOST = 'loft-team1-v-x';
const ready = workload({ name: 'x', namespace: HOST });

describe('an instance of the platform', () => {
  const x = { hostNamespace: HOST, hostName: 'x', cluster: 'c1' };
  const environment = { PLATFORM_CLUSTER: 'c1' };

  test('I06: is metered where its workload is, under its project', () => {
    const instances = [instance('p-team1', 'x', x)];
    const host = { workloads: [found(HOST, 'x')], instances, environment };
    const id = `tenant-${HOST}-x`;
    expect(hourOf(host, { workloads: [ready], pods: [gpuPod(HOST)] })).toEqual([
      `${id} ${id} team1 tenant_gpu_hours 1`,
      `${id} ${id} team1 tenant_instance_hours 1`,
    ]);
  });

  test('I07: of another cluster of the platform costs nobody anything', () => {
    const instances = [instance('p-team1', 'x', { ...x, cluster: 'c2' })];
    expect(hourOf({ instances, environment }, { pods: [gpuPod(HOST)] })).toEqual([]);
  });

  test.each(['Sleeping', 'Failed', 'Pending'])(
    'I11: in the phase %s costs instance hours only while a control plane replica is ready',
    (phase) => {
      const instances = [instance('p-team1', 'x', { ...x, phase })];
      const host = { workloads: [found(HOST, 'x')], instances, environment };
      const down = workload({ name: 'x', namespace: HOST, ready: 0 });
      const id = `tenant-${HOST}-x`;
      expect(discoverHost(host).clusters.map((cluster) => cluster.id)).toEqual([id]);
      expect(hourOf(host, { workloads: [down] })).toEqual([]);
      const instanceHour = [`${id} ${id} team1 tenant_instance_hours 1`];
      expect(hourOf(host, { workloads: [ready] })).toEqual(instanceHour);
    },
  );

  test('I12: that moves between projects is billed once, to the new one', () => {
    const instances = [
      instance('p-old', 'x', { ...x, ignored: true }),
      instance('p-new', 'x', { ...x, created: '2026-02-02T00:00:00Z' }),
    ];
    const host = {
      workloads: [found(HOST, 'x')],
      instances,
      environment: { ...environment, TENANT_SOURCE: 'project' },
    };
    expect(hourOf(host, { workloads: [ready] })).toEqual([
      `project-new tenant-${HOST}-x new tenant_instance_hours 1`,
    ]);
  });
});

describe('tenant clusters of one project', () => {
  const host: Host = {
    workloads: [found('host-x', 'x'), found('host-y', 'y')],
    instances: [
      instance('p-team1', 'x', { hostNamespace: 'host-x' }),
      instance('p-team1', 'y', { hostNamespace: 'host-y' }),
    ],
    environment: { TENANT_SOURCE: 'project' },
  };
  const workloads = ['x', 'y'].map((name) => workload({ name, namespace: `host-${name}` }));

  test('I09: are one customer, and two tenant clusters of it', () => {
    expect(hourOf(host, { workloads })).toEqual([
      'project-team1 tenant-host-x-x team1 tenant_instance_hours 1',
      'project-team1 tenant-host-y-y team1 tenant_instance_hours 1',
    ]);
  });

  test('I10: are billed to whom the tenant label names, whatever their project', () => {
    const namespaces = [namespaceObject('host-x', { labels: { 'meterfeed.io/tenant': 'acme' } })];
    expect(hourOf({ ...host, namespaces }, { workloads })).toEqual([
      'acme tenant-host-x-x team1 tenant_instance_hours 1',
      'project-team1 tenant-host-y-y team1 tenant_instance_hours 1',
    ]);
  });
});

test('I05: a StatefulSet of etcd alone is nobody’s instance', () => {
  const labels = { app: 'vcluster-etcd', release: 'x' };
  const etcd = workload({ name: 'x', namespace: HOST, labels });
  expect(hourOf({ workloads: [found(HOST, 'x', { labels })] }, { workloads: [etcd] })).toEqual([]);
});

test('G40: what is not in WATCH_NAMESPACES costs nobody anything', () => {
  const workloads = [found('tenant-x', 'x'), found('other', 'o')];
  const given = {
    workloads: [workload({ name: 'x', namespace: 'tenant-x' })],
    pods: [gpuPod('tenant-x')],
  };
  const id = 'tenant-tenant-x-x';
  expect(hourOf({ workloads }, given)).toEqual([
    `${id} ${id}  tenant_gpu_hours 1`,
    `${id} ${id}  tenant_instance_hours 1`,
  ]);
  const environment = { WATCH_NAMESPACES: 'other' };
  expect(hourOf({ workloads, environment }, given)).toEqual([]);
});
