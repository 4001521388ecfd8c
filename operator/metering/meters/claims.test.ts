import { describe, expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import { attributesOf, BARE_NODE, DOWN, draHour, GPU } from './testing/claim-scene.ts';
import { AMD, device, migDevice, resourceClaim, result, slice, fullGpu } from './testing/claims.ts';
import { gpuNode, H100, N1, N6 } from './testing/gpu-nodes.ts';
import { dedicatedTo } from './testing/node-hours.ts';
import { cluster, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, total } from './testing/world.ts';

const wholeH100 = (quantity: string) => [quantity, H100, H100, 'full', 'on-demand', 'shared'];
const nothing = (events: readonly UsageEvent[]) => total(events, GPU) + total(events, DOWN);

describe('GPUs of resource claims', () => {
  test('D01: one device, one pod', () => {
    const events = draHour({});
    expect(attributesOf(events)).toEqual(wholeH100('1'));
    expect(events.find(({ metric }) => metric === GPU)?.properties).toMatchObject({
      gpu_devices: 1,
    });
  });

  test('D04: every result is a device', () => {
    const events = draHour({ claims: [{ devices: ['gpu-0', 'gpu-1', 'gpu-2', 'gpu-3'] }] });
    expect(attributesOf(events)).toEqual(wholeH100('4'));
    expect(events.find(({ metric }) => metric === GPU)?.properties).toMatchObject({
      gpu_devices: 4,
    });
  });

  test('D05: mode All has no count, and eight results', () => {
    const devices = Array.from({ length: 8 }, (_, index) => `gpu-${index}`);
    const exactly = { deviceClassName: 'gpu', allocationMode: 'All' };
    const claims = [{ devices, requests: [{ name: 'gpu', exactly }] }];
    expect(attributesOf(draHour({ claims }))).toEqual(wholeH100('8'));
  });

  test('D07: a claim that is not allocated costs nothing', () => {
    expect(nothing(draHour({ claims: [{ devices: null }] }))).toBe(0);
    expect(nothing(draHour({ claims: [{ devices: null }], podLifetime: 'scheduled' }))).toBe(0);
  });

  test('D08: allocated for nobody costs nothing, but with podLifetime scheduled', () => {
    const claims = [{ pods: [] }];
    expect(nothing(draHour({ claims }))).toBe(0);
    expect(attributesOf(draHour({ claims, podLifetime: 'scheduled' }))).toEqual(wholeH100('1'));
  });

  test('D10: a MIG profile is spelt as device plugins spell it, and is its part of a GPU', () => {
    const mig = migDevice(0, '1g.10gb+me');
    const claims = [{ devices: [String(mig['name'])] }];
    expect(attributesOf(draHour({ slices: [slice({ devices: [mig] })], claims }))).toEqual([
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
    const [quantity] = attributesOf(
      draHour({ slices: [slice({ devices: parts })], claims: [{ devices }] }),
    );
    expect(quantity).toBe('1');
  });

  test('D11, D12: only devices of the listed drivers are GPUs', () => {
    const other = { driver: 'compute-domain.nvidia.com', pool: 'n1' };
    expect(nothing(draHour({ claims: [{ devices: [result('daemon-0', other)] }] }))).toBe(0);
    const network = ['nic-0', 'nic-1'].map((name) => result(name, { driver: 'dra.net' }));
    expect(attributesOf(draHour({ claims: [{ devices: ['gpu-0', ...network] }] }))).toEqual(
      wholeH100('1'),
    );
    const options = { settings: { draGpuDrivers: ['dra.net'] } };
    expect(total(draHour({ claims: [{ devices: ['gpu-0', ...network] }], options }), GPU)).toBe(2);
  });

  test('D13, D14: an extended resource that a claim serves counts once', () => {
    const served = (containers: number, devices: readonly string[]) =>
      draHour({
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
    expect(attributesOf(served(1, ['gpu-0']))).toEqual(wholeH100('1'));
    expect(attributesOf(served(2, ['gpu-0', 'gpu-1']))).toEqual(wholeH100('2'));
  });

  test('D15: a plugin’s GPU and a claim’s are two', () => {
    const pods = [{ containers: [{ 'nvidia.com/gpu': '1' }] }];
    expect(attributesOf(draHour({ node: gpuNode(N1), pods }))).toEqual(wholeH100('2'));
  });

  test('D16: the name of a request does not count', () => {
    const devices = [result('gpu-0', { request: 'gpu/sub-b' })];
    expect(attributesOf(draHour({ claims: [{ devices }] }))).toEqual(wholeH100('1'));
  });

  test('D18: the driver’s product names the type where no label does', () => {
    expect(attributesOf(draHour({ node: gpuNode(BARE_NODE) }))).toEqual(wholeH100('1'));
    const labels = { 'node.kubernetes.io/instance-type': 'p5.48xlarge' };
    expect(attributesOf(draHour({ node: gpuNode({ ...BARE_NODE, labels }) }))).toEqual(
      wholeH100('1'),
    );
  });

  test('D19: of stale and new slices the highest generation counts', () => {
    const named = (name: string, generation: number, productName: string) =>
      slice({ name, generation, devices: [fullGpu(0, { productName })] });
    const stale = named('z', 1, 'X');
    const fresh = named('a', 2, 'Y');
    for (const slices of [
      [stale, fresh],
      [fresh, stale],
    ]) {
      expect(attributesOf(draHour({ node: gpuNode(BARE_NODE), slices }))[2]).toBe('Y');
    }
  });

  test('while a driver restarts a device is what it last published, and before that what it first published', () => {
    const model = (podStart: number, ...published: readonly (readonly [number, string])[]) => {
      const world = createWorld();
      world.clusters([cluster('a')]);
      world.node(gpuNode(BARE_NODE));
      for (const [minute, productName] of published) {
        const object = slice({ name: productName, devices: [fullGpu(0, { productName })] });
        world.slice(object, START + minute * 60_000);
        world.sliceGone(object, START + (minute + 10) * 60_000);
      }
      const startedAt = START + podStart * 60_000;
      world.pod(pod({ name: 'c', node: 'n1', createdAt: startedAt, startedAt }), startedAt);
      world.resourceClaim(resourceClaim({}), startedAt);
      return attributesOf(world.close(START, START + HOUR).events)[2];
    };
    expect(model(20, [0, 'X'], [30, 'Y'])).toBe('X');
    expect(model(5, [10, 'X'], [30, 'Y'])).toBe('X');
    expect(model(35, [0, 'X'], [30, 'Y'])).toBe('Y');
    expect(model(50, [0, 'X'], [30, 'Y'])).toBe('Y');
    expect(model(10, [0, 'X'], [10, 'Y'])).toBe('Y');
  });

  test('D19: the stale slice counts again once the newer one is withdrawn', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode(dedicatedTo(BARE_NODE)));
    const named = (name: string, generation: number) =>
      slice({ name, generation, devices: [fullGpu(0, { productName: name })] });
    const half = START + HOUR / 2;
    world.slice(named('stale', 1));
    world.slice(named('fresh', 2));
    world.sliceGone(named('fresh', 2), half);
    // Of zero length: it never existed.
    world.slice(named('never', 3), half);
    world.sliceGone(named('never', 3), half);
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU, { gpu_type: 'fresh' })).toBe(0.5);
    expect(total(events, GPU, { gpu_type: 'stale' })).toBe(0.5);
    expect(total(events, GPU)).toBe(1);
  });

  test('D20: AMD’s driver is on the list, and its partitions are parts', () => {
    const productName = 'AMD Instinct MI300X OAM';
    const complete = device('gpu-0', { type: 'amdgpu', productName, partitionProfile: 'spx_nps1' });
    const part = device('gpu-1', {
      type: 'amdgpu-partition',
      productName,
      partitionProfile: 'cpx_nps4',
      parentPciAddr: '0000:01:00.0',
    });
    const slices = [slice({ driver: AMD, devices: [complete, part] })];
    const node = gpuNode({ ...N6, name: 'n1', capacity: {} });
    const claims = [{ devices: [result('gpu-0', { driver: AMD })] }];
    expect(attributesOf(draHour({ node, slices, claims }))).toEqual([
      '1',
      'AMD_Instinct_MI300X_OAM',
      'AMD_Instinct_MI300X_OAM',
      'full',
      'on-demand',
      'shared',
    ]);
    const parts = [{ devices: [result('gpu-1', { driver: AMD })] }];
    const [quantity, sku] = attributesOf(
      draHour({ node: gpuNode(BARE_NODE), slices, claims: parts }),
    );
    expect([quantity, sku]).toEqual(['0.125', 'AMD-Instinct-MI300X-OAM-cpx_nps4']);
  });

  test('D21: a claim whose pod has ended is not in use, whatever the controller reports', () => {
    const pods = [{ phase: 'Succeeded', finishedAt: START - 60_000 }];
    expect(nothing(draHour({ pods }))).toBe(0);
    expect(total(draHour({ pods, podLifetime: 'scheduled' }), GPU)).toBe(1);
  });

  test('administrative access takes nothing', () => {
    const devices = [result('gpu-0', { adminAccess: true })];
    expect(nothing(draHour({ claims: [{ devices }] }))).toBe(0);
  });

  test('a pod that is bound and not started costs nothing, but with podLifetime scheduled', () => {
    const pods = [{ phase: 'Pending', startedAt: null }];
    expect(nothing(draHour({ pods }))).toBe(0);
    expect(total(draHour({ pods, podLifetime: 'scheduled' }), GPU)).toBe(1);
  });

  test('one claim of many pods is charged once', () => {
    const pods = ['p', 'q', 'r'].map((name) => ({ name }));
    const events = draHour({ pods, claims: [{ pods: ['p', 'q', 'r'] }] });
    expect(attributesOf(events)).toEqual(wholeH100('1'));
  });

  test('something else than a pod uses what is reserved for it', () => {
    const reservedFor = [
      { apiGroup: 'scheduling.k8s.io', resource: 'podgroups', name: 'g', uid: 'g' },
    ];
    expect(total(draHour({ pods: [], claims: [{ pods: [], reservedFor }] }), GPU)).toBe(1);
  });
});
