import { describe, expect, test } from 'vitest';
import { discoverHost } from '../../discovery/testing/host.ts';
import { namespaceObject, workload } from '../../discovery/testing/objects.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { claim, pod } from './testing/objects.ts';
import { cpu, createWorld, HOUR, START, total, type World } from './testing/world.ts';

const MACHINES = { annotations: { 'meterfeed.io/machines': 'true' } };

/** A namespace of a provider of nodes, with a tenant cluster in it. */
function found(options: object = {}): readonly TenantCluster[] {
  const environment = { CPU_MEMORY_BASIS: 'requests' };
  const namespaces = [namespaceObject('tenant-a', options)];
  return discoverHost({ workloads: [workload('tenant-a', 'a')], namespaces, environment }).clusters;
}

function ownedBy(apiVersion: string, kind: string): RawObject {
  const owner = { apiVersion, kind, name: 'a-x49gd', uid: 'uid-a-x49gd', controller: true };
  return { ownerReferences: [owner] };
}

/** The pod of a machine as KubeVirt creates it. */
function launcher(labels: Readonly<Record<string, string>> = {}): RawObject {
  return pod({
    name: 'virt-launcher-a-x49gd-wltw8',
    node: 'n1',
    labels: { 'kubevirt.io': 'virt-launcher', 'vm.kubevirt.io/name': 'a-x49gd', ...labels },
    metadata: ownedBy('kubevirt.io/v1', 'VirtualMachineInstance'),
    containers: [{ cpu: '4', 'nvidia.com/gpu': 1 }],
  });
}

function worldOf(clusters: readonly TenantCluster[], ...pods: readonly RawObject[]): World {
  const world = createWorld();
  world.node(gpuNode(N1));
  world.clusters(clusters);
  for (const object of pods) world.pod(object);
  return world;
}

describe('a virtual machine that is a node is billed as that, and not again where it runs', () => {
  test('C32: its pod is no usage of the tenant cluster in its namespace, and is listed', () => {
    const own = pod({ name: 'p', labels: {}, containers: [{ cpu: '1' }] });
    const { events, diagnostics } = worldOf(found(MACHINES), launcher(), own).close(
      START,
      START + HOUR,
    );
    expect(cpu(events)).toBe(1);
    expect(total(events, 'tenant_gpu_hours')).toBe(0);
    expect([...diagnostics.machines]).toEqual(['tenant-a/virt-launcher-a-x49gd-wltw8']);
    expect([...diagnostics.unattributed.keys()]).toEqual([]);
    const [balance] = diagnostics.gpuBalances;
    expect([balance?.unaccounted, (balance?.system ?? 0n) > 0n]).toEqual([0n, true]);
  });

  test('S19: nor are its disks', () => {
    const world = worldOf(found(MACHINES));
    world.claim(
      claim({ name: 'd', labels: {}, metadata: ownedBy('cdi.kubevirt.io/v1beta1', 'DataVolume') }),
    );
    world.claim(claim({ name: 'v', labels: {} }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, 'tenant_storage_gb_hours')).toBe(100);
  });

  test('C32: from when the Namespace has the label', () => {
    const world = worldOf(found(), launcher());
    world.clusters(found(MACHINES), START + HOUR / 4);
    expect(cpu(world.close(START, START + HOUR).events)).toBe(1);
  });
});

describe('a tenant does not get free machines of its own', () => {
  test('C33: where machines are not marked as nodes', () => {
    const { events, diagnostics } = worldOf(found(), launcher()).close(START, START + HOUR);
    expect([cpu(events), total(events, 'tenant_gpu_hours')]).toEqual([4, 1]);
    expect([...diagnostics.machines]).toEqual([]);
  });

  test.each([
    ['that its syncer has brought', launcher({ 'vcluster.loft.sh/managed-by': 'a' })],
    [
      'that only has the labels',
      pod({
        name: 'virt-launcher-p',
        labels: { 'kubevirt.io': 'virt-launcher', 'kubevirt.io/domain': 'p' },
        containers: [{ cpu: '4' }],
      }),
    ],
  ])('C33: by a pod %s', (_, object) => {
    expect(cpu(worldOf(found(MACHINES), object).close(START, START + HOUR).events)).toBe(4);
  });
});
