import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { attributesOf, DOWN, DRA_NODE, draHour, draWorld, GPU } from './testing/claim-scene.ts';
import {
  type ResourceClaimFixture,
  migDevice,
  resourceClaim,
  result,
  slice,
  fullGpu,
} from './testing/claims.ts';
import { gpuNode, H100 } from './testing/gpu-nodes.ts';
import { cluster, iso, SYNCED_LABELS, pod } from './testing/objects.ts';
import { HOUR, START, total } from './testing/world.ts';

/** A device of NVIDIA's driver that any number of claims may share. */
const UNLIMITED = {
  ...fullGpu(0),
  allowMultipleAllocations: true,
  capacity: { memory: { value: '80Gi' } },
};

/** The GPU attributes of N1 as a private node. */
const COMPLETE_NODE = ['8', H100, H100, 'full', 'on-demand', 'dedicated_node'];

describe('devices that several claims share', () => {
  const consuming = (name: string, consumedCapacity?: RawObject): ResourceClaimFixture => ({
    name,
    labels: { ...SYNCED_LABELS, 'vcluster.loft.sh/namespace': name },
    devices: [
      result('gpu-0', {
        shareID: `00000000-0000-4000-8000-000000000${name.charCodeAt(0)}`,
        consumedCapacity,
      }),
    ],
  });
  const shared = (name: string, memory?: string): ResourceClaimFixture =>
    consuming(name, memory === undefined ? undefined : { memory, streams: '1' });
  const sharing = (fixtures: readonly ResourceClaimFixture[], capacity: RawObject = {}) =>
    draHour({
      slices: [slice({ devices: [{ ...fullGpu(0), allowMultipleAllocations: true, capacity }] })],
      pods: fixtures.map(({ name = '' }) => ({ name })),
      claims: fixtures,
    });

  test('are split by the memory that each consumes', () => {
    const capacity = { memory: { value: '80Gi' }, streams: { value: '10' } };
    expect(total(sharing([shared('p', '20Gi')], capacity), GPU)).toBe(0.25);
    expect(total(sharing([shared('p', '20Gi'), shared('q', '60Gi')], capacity), GPU)).toBe(1);
    expect(total(sharing([shared('p', '90Gi')], capacity), GPU)).toBe(1);
  });

  test('are split evenly without capacities', () => {
    expect(total(sharing([shared('p')]), GPU)).toBe(1);
    expect(total(sharing([shared('p'), shared('q'), shared('r')]), GPU)).toBe(1);
  });

  const FOUR = { memory: { value: '80Gi' }, shares: { value: '4' } };

  test.each<[string, readonly ResourceClaimFixture[], RawObject, number]>([
    ['D23: one of four shares', [consuming('p', { memory: '0', shares: '1' })], FOUR, 0.25],
    [
      'D24: shares that are unequal',
      [consuming('p', { memory: '0', shares: '1' }), consuming('q', { memory: '0', shares: '2' })],
      FOUR,
      0.75,
    ],
    [
      'D25: memory before shares, where it is more than nothing',
      [
        consuming('p', { memory: '8Gi', shares: '1' }),
        consuming('q', { memory: '0', shares: '1' }),
      ],
      FOUR,
      0.35,
    ],
    [
      'D26: unlimited: the only holder has the device',
      [consuming('p', { memory: '0' })],
      { memory: { value: '80Gi' } },
      1,
    ],
    [
      'D27: unlimited: split among its holders',
      [consuming('p', { memory: '0' }), consuming('q', { memory: '0' })],
      { memory: { value: '80Gi' } },
      1,
    ],
    [
      'D28: shares that exceed the device are scaled down to it',
      [
        consuming('p', { memory: '60Gi' }),
        consuming('q', { memory: '0' }),
        consuming('r', { memory: '0' }),
      ],
      { memory: { value: '80Gi' } },
      1,
    ],
  ])('%s', (_name, fixtures, capacity, want) => {
    expect(total(sharing(fixtures, capacity), GPU)).toBeCloseTo(want, 8);
  });

  test('D27: each of the sharing claims pays the same while it shares', () => {
    const world = draWorld({
      slices: [slice({ devices: [UNLIMITED] })],
      pods: [{ name: 'p' }],
      claims: [consuming('p', { memory: '0' })],
    });
    world.clusters([cluster('a', { meterByNamespace: true })]);
    world.pod(pod({ name: 'q', node: 'n1', startedAt: START + HOUR / 2 }), START + HOUR / 2);
    world.resourceClaim(resourceClaim(consuming('q', { memory: '0' })), START + HOUR / 2);
    const { events, explanations, diagnostics } = world.close(START, START + HOUR);
    expect(total(events, GPU, { namespace: 'p' })).toBe(0.75);
    expect(total(events, GPU, { namespace: 'q' })).toBe(0.25);
    const reported = explanations.flatMap(({ subjects }) =>
      subjects.flatMap(({ gpus }) => gpus ?? []),
    );
    expect(new Set(reported.map(({ sharedBy }) => sharedBy))).toEqual(
      new Set(['split evenly among 1', 'split evenly among 2']),
    );
    for (const { unaccounted } of diagnostics.gpuBalances) expect(unaccounted).toBe(0n);
  });

  test('count once while claims come and go', () => {
    const world = draWorld({
      slices: [slice({ devices: [{ ...fullGpu(0), allowMultipleAllocations: true }] })],
      pods: [{ name: 'p' }, { name: 'q' }],
      claims: [shared('p')],
    });
    world.resourceClaim(resourceClaim(shared('q')), START + HOUR / 2);
    // The second claim's pod runs since long ago, but had no claim before.
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU)).toBeCloseTo(1, 9);
  });
});

describe('where claims are used', () => {
  test('on a node that is down they are downtime', () => {
    const taints = [
      { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: iso(START) },
    ];
    const events = draHour({ node: gpuNode({ ...DRA_NODE, taints }) });
    expect(total(events, GPU)).toBe(0);
    expect(total(events, DOWN)).toBe(1);
  });

  test('N22: on a private node the charge of the node covers them', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const events = draHour({ node: gpuNode({ ...DRA_NODE, labels }) });
    expect(attributesOf(events)).toEqual(COMPLETE_NODE);
    expect(total(events, DOWN)).toBe(0);
    expect(total(events, 'tenant_private_node_hours')).toBe(1);
  });

  test('N23: MIG candidates beside full GPUs do not multiply the node’s GPUs', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const complete = Array.from({ length: 8 }, (_, index) => fullGpu(index));
    const candidates = Array.from({ length: 150 }, (_, index) =>
      migDevice(index % 8, '1g.10gb', Math.floor(index / 8)),
    );
    // A slice has room for 128 devices.
    const slices = [complete, candidates.slice(0, 75), candidates.slice(75)].map((devices, index) =>
      slice({ name: `s${index}`, devices, sliceCount: 3 }),
    );
    const events = draHour({ node: gpuNode({ ...DRA_NODE, labels }), slices });
    expect(attributesOf(events)).toEqual(COMPLETE_NODE);
    expect(total(events, DOWN)).toBe(0);
    expect(total(events, 'tenant_private_node_hours')).toBe(1);
  });

  test('a slice that is learnt of after its window was closed counts from then on, and changes nothing before', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const world = draWorld({ node: gpuNode({ ...DRA_NODE, labels }), slices: [], claims: [] });
    expect(total(world.close(START, START + HOUR).events, DOWN)).toBe(8);
    world.slice(slice(), START + HOUR + HOUR / 4);
    const { events } = world.close(START + HOUR, START + 2 * HOUR);
    expect([total(events, GPU), total(events, DOWN)]).toEqual([6, 2]);
    expect(JSON.stringify(events)).not.toContain('carried_seconds');
  });

  test('a GPU that its driver has tainted is missing: downtime on a node that is billed as a whole', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const broken = (effect: string): RawObject => ({
      ...fullGpu(7),
      taints: [{ key: 'gpu.nvidia.com/xid', effect, timeAdded: iso(START) }],
    });
    const healthy = Array.from({ length: 7 }, (_, index) => fullGpu(index));
    const hour = (devices: readonly RawObject[]) =>
      draHour({ node: gpuNode({ ...DRA_NODE, labels }), slices: [slice({ devices })] });
    for (const effect of ['NoSchedule', 'NoExecute']) {
      const events = hour([...healthy, broken(effect)]);
      expect(total(events, GPU)).toBe(7);
      expect(total(events, DOWN)).toBe(1);
      expect(events.find(({ metric }) => metric === DOWN)?.properties?.['reason']).toBe(
        'GPUs installed but not allocatable',
      );
    }
    expect(total(hour([...healthy, broken('None')]), DOWN)).toBe(0);
    // A GPU counts while one of its partitions is still allocated.
    const units = [broken('NoExecute'), migDevice(7, '1g.10gb')];
    expect(total(hour([...healthy, ...units]), DOWN)).toBe(0);
    expect(total(hour([...healthy, ...units.toReversed()]), DOWN)).toBe(0);
  });

  test('static MIG without any full GPU counts the GPUs of the partitions', () => {
    const labels = { ...DRA_NODE.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const units = Array.from({ length: 56 }, (_, index) => migDevice(index % 8, '1g.10gb', index));
    const events = draHour({
      node: gpuNode({ ...DRA_NODE, labels }),
      slices: [slice({ devices: units })],
    });
    expect(total(events, GPU)).toBe(8);
    expect(total(events, DOWN)).toBe(0);
  });

  test('a claim that the cluster made for a pod belongs to whom the pod belongs', () => {
    const world = draWorld({ pods: [], claims: [] });
    world.clusters([cluster('a'), cluster('b', { meterByNamespace: true })]);
    const labels = {
      'vcluster.loft.sh/managed-by': 'b',
      'vcluster.loft.sh/namespace': 'ml',
    };
    world.pod(pod({ name: 'c', node: 'n1', labels }));
    world.resourceClaim(resourceClaim({ labels: {} }));
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(total(events, GPU, { tenant: 'tenant-tenant-a-b', namespace: 'ml' })).toBe(1);
    expect(total(events, GPU)).toBe(1);
    expect([...diagnostics.unattributed.keys()]).toEqual([]);
  });

  test.each([
    ['another tenant cluster', { 'vcluster.loft.sh/managed-by': 'b' }],
    ['nobody', { 'vcluster.loft.sh/managed-by': 'nobody' }],
    ['the control plane', { app: 'vcluster', release: 'a' }],
  ])('D22: a template whose claim says that it is of %s is billed with its pod', (_, labels) => {
    const world = draWorld({ claims: [] });
    world.clusters([cluster('a'), cluster('b')]);
    world.resourceClaim(resourceClaim({ labels, madeFor: 'c' }));
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(total(events, GPU, { tenant: 'tenant-tenant-a-a' })).toBe(1);
    expect(total(events, GPU)).toBe(1);
    expect([...diagnostics.unattributed.keys()]).toEqual([]);
  });

  test('D22: a template does not count either while no pod of the claim is known', () => {
    const world = draWorld({ pods: [], claims: [], podLifetime: 'scheduled' });
    const labels = { 'vcluster.loft.sh/managed-by': 'nobody' };
    world.resourceClaim(resourceClaim({ labels, madeFor: 'c' }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU, { tenant: 'tenant-tenant-a-a' })).toBe(1);
  });

  test('the namespace inside the tenant cluster is the claim’s', () => {
    const world = draWorld({});
    world.clusters([cluster('a', { meterByNamespace: true })]);
    const labels = { ...SYNCED_LABELS, 'vcluster.loft.sh/namespace': 'ml' };
    world.resourceClaim(resourceClaim({ labels }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU, { namespace: 'ml' })).toBe(1);
  });
});

describe('a claim that a resumed watch reports at one moment, from its creation to its end', () => {
  const reported = START + 30_000;
  const ran = { startedAt: START + 5_000, finishedAt: START + 9_000, phase: 'Succeeded' } as const;
  const empty = () => {
    const world = draWorld({ pods: [], claims: [] });
    for (const name of ['p', 'q']) world.pod(pod({ name, node: 'n1', ...ran }), reported);
    return world;
  };
  const seconds = (world: ReturnType<typeof empty>): number =>
    Math.round(total(world.close(START, START + 60_000).events, GPU) * 3600);

  test('is billed while its pod ran', () => {
    const world = empty();
    world.resourceClaim(resourceClaim({ name: 'p', devices: null }), reported);
    world.resourceClaim(resourceClaim({ name: 'p', pods: [] }), reported);
    world.resourceClaim(resourceClaim({ name: 'p' }), reported);
    world.resourceClaim(resourceClaim({ name: 'p', pods: [] }), reported);
    world.resourceClaim(resourceClaim({ name: 'p', devices: null }), reported);
    world.resourceClaimGone(resourceClaim({ name: 'p', devices: null }), reported);
    expect(seconds(world)).toBe(4);
  });

  test('is billed when it was deleted while it was allocated', () => {
    const world = empty();
    world.resourceClaim(resourceClaim({ name: 'p' }), reported);
    world.resourceClaimGone(resourceClaim({ name: 'p' }), reported);
    expect(seconds(world)).toBe(4);
  });

  test('is billed once for pods that used it at the same time', () => {
    const world = empty();
    world.resourceClaim(resourceClaim({ name: 'c', pods: ['p'] }), reported);
    world.resourceClaim(resourceClaim({ name: 'c', pods: ['p', 'q'] }), reported);
    world.resourceClaim(resourceClaim({ name: 'c', pods: ['q'] }), reported);
    world.resourceClaimGone(resourceClaim({ name: 'c', pods: [] }), reported);
    expect(seconds(world)).toBe(4);
  });

  test('is billed for each allocation that it had', () => {
    const world = empty();
    world.resourceClaim(resourceClaim({ name: 'c', pods: ['p'], devices: ['gpu-0'] }), reported);
    world.resourceClaim(resourceClaim({ name: 'c', devices: null }), reported);
    world.resourceClaim(resourceClaim({ name: 'c', pods: ['q'], devices: ['gpu-1'] }), reported);
    world.resourceClaimGone(resourceClaim({ name: 'c', devices: null }), reported);
    expect(seconds(world)).toBe(8);
  });

  test('is billed whichever of its versions come a millisecond later', () => {
    const versions = [{ pods: [] }, {}, { pods: [] }, { devices: null }] as const;
    for (const pauses of [0b0001, 0b0010, 0b0100, 0b1000, 0b0101, 0b1010, 0b1111]) {
      const world = empty();
      let at = reported;
      for (const [index, version] of versions.entries()) {
        world.resourceClaim(resourceClaim({ name: 'p', ...version }), at);
        at += (pauses >> index) & 1;
      }
      world.resourceClaimGone(resourceClaim({ name: 'p', devices: null }), at);
      expect(seconds(world), pauses.toString(2)).toBe(4);
    }
  });
});
