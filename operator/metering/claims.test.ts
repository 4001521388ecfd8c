import { describe, expect, test } from 'vitest';
import type { RawObject } from '../kubernetes/source.ts';
import type { UsageEvent } from '../usage/event.ts';
import {
  AMD,
  type ClaimFixture,
  device,
  migDevice,
  NVIDIA,
  resourceClaim,
  result,
  slice,
  wholeGpu,
} from './testing/claims.ts';
import { gpuNode, H100, N1, N6 } from './testing/gpu-nodes.ts';
import { cluster, iso, OWN_LABELS, pod, type PodFixture } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type World, type WorldOptions } from './testing/world.ts';

const GPU = 'tenant_gpu_hours';
const DOWN = 'tenant_gpu_downtime_hours';

/** N1 as a driver of claims leaves it: no extended resource. */
const DRA_NODE = { ...N1, capacity: { cpu: '192', memory: '2Ti' } };
const BARE_NODE = { ...DRA_NODE, labels: {} };

interface Scene {
  readonly node?: RawObject;
  readonly slices?: readonly RawObject[];
  readonly claims?: readonly ClaimFixture[];
  /** By default one for the claim `c`. */
  readonly pods?: readonly Partial<PodFixture>[];
  readonly podLifetime?: 'running' | 'scheduled';
  readonly options?: WorldOptions;
}

/** One hour at a constant state. */
function hour(scene: Scene): readonly UsageEvent[] {
  const world = worldOf(scene);
  return world.close(START, START + HOUR).events;
}

function worldOf(scene: Scene): World {
  const { podLifetime = 'running', pods = [{}], claims = [{}] } = scene;
  const world = createWorld(scene.options);
  world.clusters([cluster('a', { podLifetime })]);
  world.node(scene.node ?? gpuNode(DRA_NODE));
  for (const object of scene.slices ?? [slice()]) world.slice(object);
  for (const fixture of pods) world.pod(pod({ name: 'c', node: 'n1', ...fixture }));
  for (const fixture of claims) world.resourceClaim(resourceClaim(fixture));
  return world;
}

/** The one event of a metric, as the case tables list its attributes. */
function only(events: readonly UsageEvent[], metric = GPU) {
  const found = events.filter((event) => event.metric === metric);
  expect(found).toHaveLength(1);
  const [event] = found;
  const { gpu_type, gpu_profile, capacity_type, billing_mode } = event?.dimensions ?? {};
  return [event?.quantity, event?.sku, gpu_type, gpu_profile, capacity_type, billing_mode];
}

const wholeH100 = (quantity: string) => [quantity, H100, H100, 'full', 'on-demand', 'shared'];
const nothing = (events: readonly UsageEvent[]) => total(events, GPU) + total(events, DOWN);

describe('GPUs of resource claims', () => {
  test('D01: one device, one pod', () => {
    const events = hour({});
    expect(only(events)).toEqual(wholeH100('1'));
    expect(events.find(({ metric }) => metric === GPU)?.properties).toMatchObject({
      gpu_devices: 1,
    });
  });

  test('D04: every result is a device', () => {
    const events = hour({ claims: [{ devices: ['gpu-0', 'gpu-1', 'gpu-2', 'gpu-3'] }] });
    expect(only(events)).toEqual(wholeH100('4'));
    expect(events.find(({ metric }) => metric === GPU)?.properties).toMatchObject({
      gpu_devices: 4,
    });
  });

  test('D05: mode All has no count, and eight results', () => {
    const devices = Array.from({ length: 8 }, (_, index) => `gpu-${index}`);
    expect(only(hour({ claims: [{ devices }] }))).toEqual(wholeH100('8'));
  });

  test('D07: a claim that is not allocated holds nothing', () => {
    expect(nothing(hour({ claims: [{ devices: null }] }))).toBe(0);
    expect(nothing(hour({ claims: [{ devices: null }], podLifetime: 'scheduled' }))).toBe(0);
  });

  test('D08: allocated for nobody costs nothing, but with podLifetime scheduled', () => {
    const claims = [{ pods: [] }];
    expect(nothing(hour({ claims }))).toBe(0);
    expect(only(hour({ claims, podLifetime: 'scheduled' }))).toEqual(wholeH100('1'));
  });

  test('D10: a MIG profile is spelt as device plugins spell it, and is its part of a GPU', () => {
    const mig = migDevice(0, '1g.10gb+me');
    const claims = [{ devices: [String(mig['name'])] }];
    expect(only(hour({ slices: [slice({ devices: [mig] })], claims }))).toEqual([
      '0.142857143',
      `${H100}-mig-1g.10gb.me`,
      H100,
      'mig-1g.10gb.me',
      'on-demand',
      'shared',
    ]);
  });

  test('seven sevenths of a GPU are one GPU, to the last digit', () => {
    const parts = Array.from({ length: 7 }, (_, index) => migDevice(0, '1g.10gb', index));
    const devices = parts.map((part) => String(part['name']));
    const [quantity] = only(hour({ slices: [slice({ devices: parts })], claims: [{ devices }] }));
    expect(quantity).toBe('1');
  });

  test('D11, D12: only devices of the listed drivers are GPUs', () => {
    const other = { driver: 'compute-domain.nvidia.com', pool: 'n1' };
    expect(nothing(hour({ claims: [{ devices: [result('daemon-0', other)] }] }))).toBe(0);
    const network = ['nic-0', 'nic-1'].map((name) => result(name, { driver: 'dra.net' }));
    expect(only(hour({ claims: [{ devices: ['gpu-0', ...network] }] }))).toEqual(wholeH100('1'));
    const options = { settings: { draGpuDrivers: ['dra.net'] } };
    expect(total(hour({ claims: [{ devices: ['gpu-0', ...network] }], options }), GPU)).toBe(2);
  });

  test('D13, D14: an extended resource that a claim serves counts once', () => {
    const served = (containers: number, devices: readonly string[]) =>
      hour({
        node: gpuNode(N1),
        claims: [{ devices }],
        pods: [
          {
            containers: Array.from({ length: containers }, () => ({ 'nvidia.com/gpu': '1' })),
            status: {
              extendedResourceClaimStatus: {
                resourceClaimName: 'c',
                requestMappings: Array.from({ length: containers }, (_, index) => ({
                  containerName: `c${index}`,
                  resourceName: 'nvidia.com/gpu',
                  requestName: `container-${index}-request-0`,
                })),
              },
            },
          },
        ],
      });
    expect(only(served(1, ['gpu-0']))).toEqual(wholeH100('1'));
    expect(only(served(2, ['gpu-0', 'gpu-1']))).toEqual(wholeH100('2'));
  });

  test('D15: a plugin’s GPU and a claim’s are two', () => {
    const pods = [{ containers: [{ 'nvidia.com/gpu': '1' }] }];
    expect(only(hour({ node: gpuNode(N1), pods }))).toEqual(wholeH100('2'));
  });

  test('D16: the name of a request says nothing', () => {
    const devices = [result('gpu-0', { request: 'gpu/sub-b' })];
    expect(only(hour({ claims: [{ devices }] }))).toEqual(wholeH100('1'));
  });

  test('D18: the driver’s product names the type where no label does', () => {
    expect(only(hour({ node: gpuNode(BARE_NODE) }))).toEqual(wholeH100('1'));
    const labels = { 'node.kubernetes.io/instance-type': 'p5.48xlarge' };
    expect(only(hour({ node: gpuNode({ ...BARE_NODE, labels }) }))).toEqual(wholeH100('1'));
  });

  test('D19: of stale and new slices the highest generation holds', () => {
    const named = (name: string, generation: number, productName: string) =>
      slice({ name, generation, devices: [wholeGpu(0, { productName })] });
    const stale = named('z', 1, 'X');
    const fresh = named('a', 2, 'Y');
    for (const slices of [
      [stale, fresh],
      [fresh, stale],
    ]) {
      expect(only(hour({ node: gpuNode(BARE_NODE), slices }))[2]).toBe('Y');
    }
  });

  test('D20: AMD’s driver is on the list, and its partitions are parts', () => {
    const productName = 'AMD Instinct MI300X OAM';
    const whole = device('gpu-0', { type: 'amdgpu', productName, partitionProfile: 'spx_nps1' });
    const part = device('gpu-1', {
      type: 'amdgpu-partition',
      productName,
      partitionProfile: 'cpx_nps4',
      parentPciAddr: '0000:01:00.0',
    });
    const slices = [slice({ driver: AMD, devices: [whole, part] })];
    const node = gpuNode({ ...N6, name: 'n1', capacity: {} });
    const claims = [{ devices: [result('gpu-0', { driver: AMD })] }];
    expect(only(hour({ node, slices, claims }))).toEqual([
      '1',
      'AMD_Instinct_MI300X_OAM',
      'AMD_Instinct_MI300X_OAM',
      'full',
      'on-demand',
      'shared',
    ]);
    const parts = [{ devices: [result('gpu-1', { driver: AMD })] }];
    const [quantity, sku] = only(hour({ node: gpuNode(BARE_NODE), slices, claims: parts }));
    expect([quantity, sku]).toEqual(['0.125', 'AMD-Instinct-MI300X-OAM-cpx_nps4']);
  });

  test('D21: a claim whose pod has ended is not in use, whatever the controller says', () => {
    const pods = [{ phase: 'Succeeded', finishedAt: START - 60_000 }];
    expect(nothing(hour({ pods }))).toBe(0);
    expect(total(hour({ pods, podLifetime: 'scheduled' }), GPU)).toBe(1);
  });

  test('administrative access takes nothing', () => {
    const devices = [result('gpu-0', { adminAccess: true })];
    expect(nothing(hour({ claims: [{ devices }] }))).toBe(0);
  });

  test('a pod that is bound and not started costs nothing, but with podLifetime scheduled', () => {
    const pods = [{ phase: 'Pending', startedAt: null }];
    expect(nothing(hour({ pods }))).toBe(0);
    expect(total(hour({ pods, podLifetime: 'scheduled' }), GPU)).toBe(1);
  });

  test('one claim of many pods is charged once', () => {
    const pods = ['p', 'q', 'r'].map((name) => ({ name }));
    const events = hour({ pods, claims: [{ pods: ['p', 'q', 'r'] }] });
    expect(only(events)).toEqual(wholeH100('1'));
  });

  test('something else than a pod uses what is reserved for it', () => {
    const reservedFor = [{ apiGroup: 'scheduling.k8s.io', resource: 'podgroups', uid: 'g' }];
    expect(total(hour({ pods: [], claims: [{ pods: [], reservedFor }] }), GPU)).toBe(1);
  });
});

describe('devices that several claims hold', () => {
  const shared = (name: string, memory?: string): ClaimFixture => ({
    name,
    labels: { ...OWN_LABELS, 'vcluster.loft.sh/namespace': name },
    devices: [
      result('gpu-0', {
        shareID: `share-${name}`,
        ...(memory === undefined ? {} : { consumedCapacity: { memory, streams: '1' } }),
      }),
    ],
  });
  const sharing = (fixtures: readonly ClaimFixture[], capacity: RawObject = {}) =>
    hour({
      slices: [slice({ devices: [{ ...wholeGpu(0), allowMultipleAllocations: true, capacity }] })],
      pods: fixtures.map(({ name = '' }) => ({ name })),
      claims: fixtures,
    });

  test('are split by the memory that each consumes', () => {
    const capacity = { memory: { value: '80Gi' }, streams: { value: '10' } };
    expect(total(sharing([shared('p', '20Gi')], capacity), GPU)).toBe(0.25);
    expect(total(sharing([shared('p', '20Gi'), shared('q', '60Gi')], capacity), GPU)).toBe(1);
    expect(total(sharing([shared('p', '90Gi')], capacity), GPU)).toBe(1);
  });

  test('are split evenly where capacities do not say', () => {
    expect(total(sharing([shared('p')]), GPU)).toBe(1);
    expect(total(sharing([shared('p'), shared('q'), shared('r')]), GPU)).toBe(1);
  });

  test('count once while claims come and go', () => {
    const world = worldOf({
      slices: [slice({ devices: [{ ...wholeGpu(0), allowMultipleAllocations: true }] })],
      pods: [{ name: 'p' }, { name: 'q' }],
      claims: [shared('p')],
    });
    world.resourceClaim(resourceClaim(shared('q')), START + HOUR / 2);
    // The pod of the second runs since long ago, but had no claim before.
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU)).toBeCloseTo(1, 9);
  });
});

describe('where claims are used', () => {
  test('on a node that is down they are downtime', () => {
    const taints = [
      { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: iso(START) },
    ];
    const events = hour({ node: gpuNode({ ...DRA_NODE, taints }) });
    expect(total(events, GPU)).toBe(0);
    expect(total(events, DOWN)).toBe(1);
  });

  test('N22: on the tenant’s own node the whole node covers them', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const events = hour({ node: gpuNode({ ...DRA_NODE, labels }) });
    expect(total(events, GPU, { billing_mode: 'dedicated_node' })).toBe(8);
    expect(total(events, GPU)).toBe(8);
    expect(total(events, DOWN)).toBe(0);
    expect(total(events, 'tenant_private_node_hours')).toBe(1);
  });

  test('N23: MIG candidates beside whole GPUs do not multiply the node’s GPUs', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const whole = Array.from({ length: 8 }, (_, index) => wholeGpu(index));
    const candidates = Array.from({ length: 150 }, (_, index) =>
      migDevice(index % 8, '1g.10gb', Math.floor(index / 8)),
    );
    const slices = [
      slice({ name: 's1', devices: whole, sliceCount: 2 }),
      slice({ name: 's2', devices: candidates, sliceCount: 2 }),
    ];
    const events = hour({ node: gpuNode({ ...DRA_NODE, labels }), slices });
    expect(total(events, GPU)).toBe(8);
    expect(total(events, DOWN)).toBe(0);
  });

  test('static MIG without any whole GPU counts the GPUs that the parts are cut out of', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const parts = Array.from({ length: 56 }, (_, index) => migDevice(index % 8, '1g.10gb', index));
    const events = hour({
      node: gpuNode({ ...DRA_NODE, labels }),
      slices: [slice({ devices: parts })],
    });
    expect(total(events, GPU)).toBe(8);
    expect(total(events, DOWN)).toBe(0);
  });

  test('a claim that the cluster made for a pod belongs to whom the pod belongs', () => {
    const world = worldOf({ pods: [], claims: [] });
    world.clusters([cluster('a'), cluster('b', { meterByNamespace: true })]);
    const labels = {
      'vcluster.loft.sh/managed-by': 'b',
      'vcluster.loft.sh/namespace': 'ml',
    };
    world.pod(pod({ name: 'c', node: 'n1', labels }));
    world.resourceClaim(resourceClaim({ labels: {} }));
    const { events, findings } = world.close(START, START + HOUR);
    expect(total(events, GPU, { tenant: 'tenant-tenant-a-b', namespace: 'ml' })).toBe(1);
    expect(total(events, GPU)).toBe(1);
    expect([...findings.unattributed]).toEqual([]);
  });

  test('the namespace inside the tenant cluster is the claim’s', () => {
    const world = worldOf({});
    world.clusters([cluster('a', { meterByNamespace: true })]);
    const labels = { ...OWN_LABELS, 'vcluster.loft.sh/namespace': 'ml' };
    world.resourceClaim(resourceClaim({ labels }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU, { namespace: 'ml' })).toBe(1);
  });
});

describe('the time of claims', () => {
  const at = (seconds: number) => START + seconds * 1000;
  const seconds = (events: readonly UsageEvent[]) =>
    Math.round(total(events, GPU) * 3600 * 1e4) / 1e4;

  test('is that of their pods, whenever the claim’s own events come', () => {
    const world = worldOf({ pods: [], claims: [{ devices: null }] });
    const life = { name: 'c', node: 'n1', createdAt: at(60), startedAt: at(70) };
    world.pod(pod(life), at(71));
    world.resourceClaim(resourceClaim(), at(72));
    world.pod(pod({ ...life, phase: 'Succeeded', finishedAt: at(100) }), at(101));
    world.resourceClaim(resourceClaim({ devices: null }), at(400));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(30);
  });

  test('is that of the allocation with podLifetime scheduled', () => {
    const world = worldOf({ pods: [], claims: [{ devices: null }], podLifetime: 'scheduled' });
    world.resourceClaim(resourceClaim({ pods: [] }), at(100));
    world.resourceClaim(resourceClaim({ devices: null }), at(400));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(300);
  });

  test('of a claim that goes with its pod is billed all the same', () => {
    const world = worldOf({});
    const gone = pod({ name: 'c', node: 'n1', phase: 'Succeeded', finishedAt: at(100) });
    world.podGone(gone, at(101));
    world.resourceClaimGone(resourceClaim({ devices: null }), at(102));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(100);
  });

  test('goes on while the driver’s slices are withdrawn, and knows what the devices are', () => {
    const mig = migDevice(0, '1g.10gb');
    const slices = [slice({ devices: [mig] })];
    const world = worldOf({ slices, claims: [{ devices: [String(mig['name'])] }] });
    world.sliceGone(slice({ devices: [mig] }), at(10));
    for (let hours = 0; hours < 3; hours += 1) {
      const { events } = world.close(START + hours * HOUR, START + (hours + 1) * HOUR);
      expect(only(events)).toEqual([
        '0.142857143',
        `${H100}-mig-1g.10gb`,
        H100,
        'mig-1g.10gb',
        'on-demand',
        'shared',
      ]);
    }
    world.resourceClaimGone(resourceClaim({ devices: null }), at(3 * 3600 + 1));
    world.close(START + 3 * HOUR, START + 4 * HOUR);
    expect(world.observation.resourceSlices.size).toBe(0);
  });

  test('of a device that nobody has published is billed by its name', () => {
    const claims = [{ devices: ['gpu-3-mig-3g40gb-9-0', 'gpu-4'] }];
    const events = hour({ slices: [], claims });
    expect(total(events, GPU, { gpu_profile: 'mig-3g.40gb' })).toBeCloseTo(3 / 7, 9);
    expect(total(events, GPU, { gpu_profile: 'full' })).toBe(1);
  });

  test('that was billed too long is given back with the pod’s late finish', () => {
    const world = worldOf({ pods: [{ name: 'c' }, { name: 'd' }], claims: [{}] });
    world.resourceClaim(resourceClaim({ name: 'd', devices: ['gpu-1'] }));
    const first = world.close(at(0), at(60));
    expect(seconds(first.events)).toBe(120);
    const finished = pod({ name: 'c', node: 'n1', phase: 'Succeeded', finishedAt: at(50) });
    world.pod(finished, at(64));
    const second = world.close(at(60), at(120));
    expect(seconds(second.events)).toBe(50);
    const [event] = second.events.filter(({ metric }) => metric === GPU);
    expect(event?.properties).toMatchObject({ carried_seconds: -10 });
  });

  test('two pods after each other on one claim leave no gap and no overlap', () => {
    const world = worldOf({ pods: [{ name: 'p' }], claims: [{ pods: ['p'] }] });
    const second = { name: 'q', node: 'n1', createdAt: at(80), startedAt: at(90) };
    world.pod(pod(second), at(91));
    world.resourceClaim(resourceClaim({ pods: ['p', 'q'] }), at(92));
    world.pod(pod({ name: 'p', node: 'n1', phase: 'Succeeded', finishedAt: at(100) }), at(101));
    world.resourceClaim(resourceClaim({ pods: ['q'] }), at(103));
    world.pod(pod({ ...second, phase: 'Failed', finishedAt: at(200) }), at(201));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(200);
  });
});

test('claims of drivers that are not listed keep no node and no price', () => {
  const devices = [
    result('x', { driver: 'fpga.example.com' }),
    result('gpu-0', { driver: NVIDIA }),
  ];
  expect(only(hour({ claims: [{ devices }] }))).toEqual(wholeH100('1'));
});
