import { describe, expect, test } from 'vitest';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import type { UsageEvent } from '../../model/event.ts';
import {
  A10G,
  gpuNode,
  H100,
  N1,
  N2,
  N3,
  N4,
  N5,
  N6,
  type NodeFixture,
  variant,
} from './testing/gpu-nodes.ts';
import { cluster, iso, SYNCED_LABELS, pod, type PodFixture } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type WorldOptions } from './testing/world.ts';

type Fixture = Omit<PodFixture, 'name'>;

const GPU = 'nvidia.com/gpu';

interface Case extends WorldOptions {
  readonly nodes: readonly NodeFixture[];
  readonly pods: readonly Fixture[];
  readonly clusters?: readonly TenantCluster[];
}

/** The events of one hour at a constant state; pods run on the first node by default. */
function hourOf({ nodes, pods, clusters = [cluster('a')], ...options }: Case): UsageEvent[] {
  const world = createWorld(options);
  for (const one of nodes) world.node(gpuNode(one));
  world.clusters(clusters);
  const home = nodes[0]?.name ?? 'n1';
  for (const [index, one] of pods.entries()) {
    world.pod(pod({ node: home, ...one, name: `p${index}` }));
  }
  return world.close(START, START + HOUR).events;
}

function gpuEvents(events: readonly UsageEvent[]): UsageEvent[] {
  return events.filter(({ metric }) => metric === 'tenant_gpu_hours');
}

function gpus(events: readonly UsageEvent[], match: Readonly<Record<string, string>> = {}): number {
  return total(events, 'tenant_gpu_hours', match);
}

/** Quantity, sku, type and profile of the only GPU event; on demand, on a shared node. */
function named(events: readonly UsageEvent[]): unknown[] {
  const own = gpuEvents(events);
  expect(own).toHaveLength(1);
  expect(own[0]?.dimensions).toMatchObject({ capacity_type: 'on-demand', billing_mode: 'shared' });
  return own.map(({ quantity, sku, dimensions }) => [
    Number(quantity),
    sku,
    dimensions?.['gpu_type'],
    dimensions?.['gpu_profile'],
  ])[0] as unknown[];
}

const querying = (count: number | string, resource = GPU): Fixture => ({
  containers: [{ [resource]: count }],
});

const init = (count: number): RawObject => ({
  name: 'init',
  resources: { requests: { [GPU]: count } },
});
const sidecar = (count: number): RawObject => ({ ...init(count), restartPolicy: 'Always' });

test('G01: two full GPUs are two GPUs, with all that prices them', () => {
  const events = hourOf({ nodes: [N1], pods: [querying(2)] });
  const [event] = gpuEvents(events);
  expect(event).toMatchObject({
    quantity: '2',
    unit: 'gpu-hours',
    sku: H100,
    resource_id: 'tenant-tenant-a-a',
    dimensions: {
      tenant_cluster: 'tenant-tenant-a-a',
      gpu_type: H100,
      gpu_profile: 'full',
      capacity_type: 'on-demand',
      billing_mode: 'shared',
    },
    properties: { gpu_devices: 2, pods: 1 },
  });
});

describe('the GPUs of a pod follow the scheduler', () => {
  test.each<[string, Fixture, number, string]>([
    [
      'G04: an init container that requests more',
      { ...querying(2), initContainers: [init(4)] },
      4,
      'max(app, init)',
    ],
    ['G05: a sidecar', { ...querying(1), initContainers: [sidecar(1)] }, 2, 'sidecars add'],
    [
      'G06: a sidecar before an init container',
      { ...querying(1), initContainers: [sidecar(1), init(3)] },
      4,
      'init + sidecars before',
    ],
    [
      'G07: a sidecar after an init container',
      { ...querying(1), initContainers: [init(3), sidecar(1)] },
      3,
      'a sidecar after the init',
    ],
    ['G13: a request of zero', querying('0'), 0, 'zero'],
  ])('%s', (_id, fixture, want) => {
    expect(gpus(hourOf({ nodes: [N1], pods: [fixture] }))).toBe(want);
  });

  test('G08: a pod that has ended costs nothing', () => {
    const ended = { ...querying(8), startedAt: START - 7200_000, finishedAt: START - 3600_000 };
    const pods = [
      { ...ended, phase: 'Succeeded' },
      { ...ended, phase: 'Failed', status: { reason: 'Evicted' } },
    ];
    expect(gpus(hourOf({ nodes: [N1], pods }))).toBe(0);
  });

  test('G11: a pod that is being deleted has its GPU until its containers end', () => {
    const metadata = { deletionTimestamp: iso(START + HOUR / 4), deletionGracePeriodSeconds: 300 };
    expect(gpus(hourOf({ nodes: [N1], pods: [{ ...querying(1), metadata }] }))).toBe(1);
  });

  test('G10: a pod that is bound and has not started costs nothing by default', () => {
    const pods = [{ ...querying(1), phase: 'Pending', startedAt: null }];
    expect(gpus(hourOf({ nodes: [N1], pods }))).toBe(0);
    const clusters = [cluster('a', { podLifetime: 'scheduled' })];
    expect(gpus(hourOf({ nodes: [N1], pods, clusters }))).toBe(1);
  });
});

describe('the GPU type is the first label that names one', () => {
  const labels = {
    accelerator: 'a',
    'cloud.google.com/gke-accelerator': 'b',
    'k8s.amazonaws.com/accelerator': 'c',
    'node.kubernetes.io/instance-type': 'd',
  };
  const keys = Object.keys(labels);
  const plain: NodeFixture = { capacity: { [GPU]: '1' } };
  const without = (count: number) => Object.fromEntries(Object.entries(labels).slice(count));
  test.each<[string, NodeFixture, string]>([
    ['G14: no label names the type', plain, 'unknown'],
    [
      'G15: the machine label before others',
      {
        ...plain,
        labels: {
          'nvidia.com/gpu.machine': 'NVIDIA-DGX-H100',
          accelerator: 'h100',
          'node.kubernetes.io/instance-type': 'x',
        },
      },
      'NVIDIA-DGX-H100',
    ],
    ...['a', 'b', 'c', 'd', 'unknown'].map((want, index): [string, NodeFixture, string] => [
      `G16 without the first ${index} of ${keys.length}`,
      { ...plain, labels: without(index) },
      want,
    ]),
    [
      'G17: an empty label is none',
      {
        ...plain,
        labels: { 'nvidia.com/gpu.product': '', 'cloud.google.com/gke-accelerator': 'nvidia-l4' },
      },
      'nvidia-l4',
    ],
  ])('%s', (_id, node, want) => {
    const [quantity, , type, profile] = named(hourOf({ nodes: [node], pods: [querying(1)] }));
    expect([quantity, type, profile]).toEqual([1, want, 'full']);
  });
});

describe('every way of cutting a GPU is billed as the share that it is', () => {
  const MI300X = 'AMD_Instinct_MI300X_OAM';
  const cut = variant(N6, { capacity: { 'amd.com/gpu': null, 'amd.com/cpx_nps4': '64' } });
  const all = ['nvidia.com/gpu', 'amd.com/gpu', 'amd.com/cpx_nps4'];
  const seventh = 0.142857143;
  test.each<[string, Case, unknown[]]>([
    [
      'G18: a full GPU of AMD',
      { nodes: [N6], pods: [querying(2, 'amd.com/gpu')] },
      [2, MI300X, MI300X, 'full'],
    ],
    [
      'G20: an AMD partition',
      {
        nodes: [cut],
        pods: [querying(4, 'amd.com/cpx_nps4')],
        nodeSettings: { gpuResources: all },
      },
      [0.5, `${MI300X}-cpx_nps4`, MI300X, 'cpx_nps4'],
    ],
    [
      'G21: two MIG slices',
      { nodes: [N4], pods: [querying(2, 'nvidia.com/mig-1g.10gb')] },
      [0.285714286, `${H100}-mig-1g.10gb`, H100, 'mig-1g.10gb'],
    ],
    [
      'G22: three slices of seven',
      { nodes: [N4], pods: [querying(1, 'nvidia.com/mig-3g.40gb')] },
      [0.428571429, `${H100}-mig-3g.40gb`, H100, 'mig-3g.40gb'],
    ],
    [
      'G23: a MIG slice with media extensions',
      { nodes: [N4], pods: [querying(1, 'nvidia.com/mig-1g.10gb.me')] },
      [seventh, `${H100}-mig-1g.10gb.me`, H100, 'mig-1g.10gb.me'],
    ],
    [
      'G24: an A30 has four slices',
      {
        nodes: [variant(N4, { labels: { 'nvidia.com/gpu.product': 'NVIDIA-A30' } })],
        pods: [querying(1, 'nvidia.com/mig-1g.6gb')],
      },
      [0.25, 'NVIDIA-A30-mig-1g.6gb', 'NVIDIA-A30', 'mig-1g.6gb'],
    ],
    [
      'G25: MIG single, under the name of a full GPU',
      { nodes: [N5], pods: [querying(1)] },
      [seventh, `${H100}-mig-1g.10gb`, H100, 'mig-1g.10gb'],
    ],
    [
      'G26: time-slicing under the name of a full GPU',
      { nodes: [N2], pods: [querying(1)] },
      [0.25, `${A10G}-timeslice-4`, A10G, 'timeslice-4'],
    ],
    [
      'G27: time-slicing under a name of its own',
      { nodes: [N3], pods: [querying(1, 'nvidia.com/gpu.shared')] },
      [0.25, `${A10G}-timeslice-4`, A10G, 'timeslice-4'],
    ],
    [
      'G28: the number of replicas is what is advertised ÷ what is installed',
      {
        nodes: [variant(N3, { labels: { 'nvidia.com/gpu.replicas': null } })],
        pods: [querying(1, 'nvidia.com/gpu.shared')],
      },
      [0.25, `${A10G}-timeslice-4`, A10G, 'timeslice-4'],
    ],
    ['G29: a whole GPU', { nodes: [N1], pods: [querying(1)] }, [1, H100, H100, 'full']],
    [
      'G30: replicas 0 means not shared',
      { nodes: [N4], pods: [querying(1, 'nvidia.com/mig-1g.10gb')] },
      [seventh, `${H100}-mig-1g.10gb`, H100, 'mig-1g.10gb'],
    ],
    [
      'G31: time-slicing of MIG slices',
      {
        nodes: [
          variant(N4, {
            labels: { 'nvidia.com/mig-1g.10gb.replicas': '2' },
            capacity: {
              'nvidia.com/mig-1g.10gb': null,
              'nvidia.com/mig-1g.10gb.shared': '112',
            },
          }),
        ],
        pods: [querying(1, 'nvidia.com/mig-1g.10gb.shared')],
      },
      [0.071428571, `${H100}-mig-1g.10gb-timeslice-2`, H100, 'mig-1g.10gb-timeslice-2'],
    ],
    [
      'G32: MPS',
      {
        nodes: [variant(N2, { labels: { 'nvidia.com/gpu.sharing-strategy': 'mps' } })],
        pods: [querying(1)],
      },
      [0.25, `${A10G}-mps-4`, A10G, 'mps-4'],
    ],
    [
      'G33: GKE time-sharing',
      {
        nodes: [
          {
            labels: {
              'cloud.google.com/gke-accelerator': 'nvidia-l4',
              'cloud.google.com/gke-gpu-sharing-strategy': 'time-sharing',
              'cloud.google.com/gke-max-shared-clients-per-gpu': '8',
            },
            capacity: { [GPU]: '16' },
          },
        ],
        pods: [querying(2)],
      },
      [0.25, 'nvidia-l4-timeslice-8', 'nvidia-l4', 'timeslice-8'],
    ],
    [
      'G39: the SKU label in place of the model',
      {
        nodes: [variant(N1, { labels: { 'example.com/sku': 'h100-sxm' } })],
        pods: [querying(1)],
        nodeSettings: { skuLabel: 'example.com/sku' },
      },
      [1, 'h100-sxm', H100, 'full'],
    ],
  ])('%s', (_id, given, want) => {
    expect(named(hourOf(given))).toEqual(want);
  });

  test('G19: an AMD partition that is not configured is no GPU', () => {
    expect(gpus(hourOf({ nodes: [cut], pods: [querying(4, 'amd.com/cpx_nps4')] }))).toBe(0);
  });

  test('seven sevenths are one GPU to the last digit, and three thirds as well', () => {
    const sevenths = Array.from({ length: 7 }, () => querying(1, 'nvidia.com/mig-1g.10gb'));
    expect(gpus(hourOf({ nodes: [N4], pods: sevenths }))).toBe(1);
    const byThree = variant(N2, { labels: { 'nvidia.com/gpu.replicas': '3' } });
    const thirds = Array.from({ length: 3 }, () => querying(1));
    expect(gpus(hourOf({ nodes: [byThree], pods: thirds }))).toBe(1);
  });
});

describe('GPUs are billed to whom the pod belongs', () => {
  const labelled = (managedBy: string, namespace = 'default') => ({
    'vcluster.loft.sh/managed-by': managedBy,
    'vcluster.loft.sh/namespace': namespace,
  });

  test('G34: pods of a tenant cluster add up', () => {
    const events = hourOf({ nodes: [N1], pods: [querying(1), querying(1), querying(1)] });
    expect(gpus(events)).toBe(3);
    expect(gpuEvents(events)[0]?.properties).toMatchObject({ gpu_devices: 3, pods: 3 });
  });

  test('G35: two tenant clusters in one namespace pay for their own pods only', () => {
    const pods = [
      { ...querying(1), labels: labelled('a') },
      { ...querying(2), labels: labelled('b') },
    ];
    const events = hourOf({ nodes: [N1], pods, clusters: [cluster('a'), cluster('b')] });
    expect(gpus(events, { tenant: 'tenant-tenant-a-a' })).toBe(1);
    expect(gpus(events, { tenant: 'tenant-tenant-a-b' })).toBe(2);
  });

  const perNamespace = [
    { ...querying(1), labels: labelled('a', 'ml') },
    { ...querying(2), labels: labelled('a', 'web') },
  ];

  test('G36: by the namespace inside the tenant cluster when set', () => {
    const clusters = [cluster('a', { meterByNamespace: true })];
    const events = hourOf({ nodes: [N1], pods: perNamespace, clusters });
    expect(gpus(events, { namespace: 'ml' })).toBe(1);
    expect(gpus(events, { namespace: 'web' })).toBe(2);
  });

  test('G37: in one sum otherwise', () => {
    const events = hourOf({ nodes: [N1], pods: perNamespace });
    expect(gpus(events)).toBe(3);
    expect(gpuEvents(events)[0]?.dimensions).not.toHaveProperty('namespace');
  });

  test.each(['vcluster', 'tenant-cluster'])(
    'G38: a tenant cannot free its pods with the label app=%s of the control plane',
    (app) => {
      const pods = [{ ...querying(1), labels: { ...SYNCED_LABELS, app, release: 'a' } }];
      expect(gpus(hourOf({ nodes: [N1], pods }))).toBe(1);
    },
  );
});

describe('T14: capacity type', () => {
  test('a spot GPU is billed at its full quantity; the price has the discount', () => {
    const spot = variant(N1, { labels: { 'karpenter.sh/capacity-type': 'spot' } });
    const events = hourOf({ nodes: [spot], pods: [querying(8)] });
    expect(gpus(events, { capacity_type: 'spot' })).toBe(8);
  });

  test('a label that changes splits the hour', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    world.pod(pod({ name: 'p', node: 'n1', ...querying(4) }));
    const spot = variant(N1, { labels: { 'karpenter.sh/capacity-type': 'spot' } });
    world.node(gpuNode(spot), START + HOUR / 4);
    const { events } = world.close(START, START + HOUR);
    expect(gpus(events, { capacity_type: 'on-demand' })).toBe(1);
    expect(gpus(events, { capacity_type: 'spot' })).toBe(3);
  });
});

test('a pod whose node was never seen is billed all the same', () => {
  const pods = [{ ...querying(2), node: 'elsewhere' }];
  expect(named(hourOf({ nodes: [N1], pods }))).toEqual([2, 'unknown', 'unknown', 'full']);
});
