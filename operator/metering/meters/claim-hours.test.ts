import { describe, expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import { attributesOf, DOWN, DRA_NODE, draHour, draWorld, GPU } from './testing/claim-scene.ts';
import { migDevice, resourceClaim, result, slice } from './testing/claims.ts';
import { gpuNode, H100 } from './testing/gpu-nodes.ts';
import { iso, pod } from './testing/objects.ts';
import { HOUR, START, total } from './testing/world.ts';

describe('the time of claims', () => {
  const at = (seconds: number) => START + seconds * 1000;
  const seconds = (events: readonly UsageEvent[]) =>
    Math.round(total(events, GPU) * 3600 * 1e4) / 1e4;

  test('is that of their pods, whenever the claim’s own events come', () => {
    const world = draWorld({ pods: [], claims: [{ devices: null }] });
    const life = { name: 'c', node: 'n1', createdAt: at(60), startedAt: at(70) };
    world.pod(pod(life), at(71));
    world.resourceClaim(resourceClaim(), at(72));
    world.pod(pod({ ...life, phase: 'Succeeded', finishedAt: at(100) }), at(101));
    world.resourceClaim(resourceClaim({ devices: null }), at(400));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(30);
  });

  test('is that of the allocation with podLifetime scheduled', () => {
    const world = draWorld({ pods: [], claims: [{ devices: null }], podLifetime: 'scheduled' });
    world.resourceClaim(resourceClaim({ pods: [] }), at(100));
    world.resourceClaim(resourceClaim({ devices: null }), at(400));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(300);
  });

  test('of a claim that goes with its pod is billed all the same', () => {
    const world = draWorld({});
    const gone = pod({ name: 'c', node: 'n1', phase: 'Succeeded', finishedAt: at(100) });
    world.podGone(gone, at(101));
    world.resourceClaimGone(resourceClaim({ devices: null }), at(102));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(100);
  });

  test('goes on while the driver’s slices are withdrawn, and knows what the devices are', () => {
    const mig = migDevice(0, '1g.10gb');
    const slices = [slice({ devices: [mig] })];
    const world = draWorld({ slices, claims: [{ devices: [String(mig['name'])] }] });
    world.sliceGone(slice({ devices: [mig] }), at(10));
    for (let hours = 0; hours < 3; hours += 1) {
      const { events } = world.close(START + hours * HOUR, START + (hours + 1) * HOUR);
      expect(attributesOf(events)).toEqual([
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
    const events = draHour({ slices: [], claims });
    expect(total(events, GPU, { gpu_profile: 'mig-3g.40gb' })).toBeCloseTo(3 / 7, 9);
    expect(total(events, GPU, { gpu_profile: 'full' })).toBe(1);
  });

  test('that was billed too long is given back with the pod’s late finish', () => {
    const world = draWorld({ pods: [{ name: 'c' }, { name: 'd' }], claims: [{}] });
    world.resourceClaim(resourceClaim({ name: 'd', devices: ['gpu-1'] }));
    const first = world.close(at(0), at(60));
    expect(seconds(first.events)).toBe(120);
    const finished = pod({ name: 'c', node: 'n1', phase: 'Succeeded', finishedAt: at(50) });
    world.pod(finished, at(64));
    const second = world.close(at(60), at(120));
    expect(seconds(second.events)).toBe(50);
    const [event] = second.events.filter(({ metric }) => metric === GPU);
    expect(event?.properties).toMatchObject({ carried_seconds: -10 });
    // The other claim was billed correctly: nothing of it is carried.
    const late = second.explanations.flatMap(({ shares }) =>
      shares.filter(([, , , , , , , c]) => c),
    );
    expect(late.map(([, , name, , from, to]) => [name, from, to])).toEqual([
      ['c', -60_000, 0],
      ['c', -60_000, -10_000],
    ]);
  });

  test('of a claim without a node is down with the node of its devices, also when that is reported late', () => {
    const world = draWorld({ pods: [], claims: [], podLifetime: 'scheduled' });
    const claim = resourceClaim({ pods: [] });
    const status = { allocation: { devices: { results: [result('gpu-0')] } } };
    world.resourceClaim({ ...claim, status });
    expect(seconds(world.close(at(0), at(60)).events)).toBe(60);
    const key = 'node.kubernetes.io/unreachable';
    const taints = [{ key, effect: 'NoExecute', timeAdded: iso(at(50)) }];
    world.node(gpuNode({ ...DRA_NODE, taints }), at(64));
    const { events } = world.close(at(60), at(120));
    expect(seconds(events)).toBe(0);
    expect(Math.round(total(events, DOWN) * 3600)).toBe(70);
  });

  test('of a claim that moved to another node is down with that node, also when that is reported late', () => {
    const world = draWorld({ pods: [], claims: [{ pods: [] }], podLifetime: 'scheduled' });
    const second = { ...DRA_NODE, name: 'n2' };
    world.node(gpuNode(second));
    world.slice(slice({ name: 'second', pool: 'n2' }));
    world.resourceClaim(resourceClaim({ pods: [], devices: null }), at(20));
    const devices = [result('gpu-0', { pool: 'n2' })];
    world.resourceClaim(resourceClaim({ pods: [], node: 'n2', devices }), at(30));
    expect(seconds(world.close(at(0), at(60)).events)).toBe(50);
    const key = 'node.kubernetes.io/unreachable';
    const taints = [{ key, effect: 'NoExecute', timeAdded: iso(at(50)) }];
    world.node(gpuNode({ ...second, taints }), at(64));
    const { events } = world.close(at(60), at(120));
    expect(seconds(events)).toBe(0);
    expect(Math.round(total(events, DOWN) * 3600)).toBe(70);
  });

  test('two pods after each other on one claim leave no gap and no overlap', () => {
    const world = draWorld({ pods: [{ name: 'p' }], claims: [{ pods: ['p'] }] });
    const second = { name: 'q', node: 'n1', createdAt: at(80), startedAt: at(90) };
    world.pod(pod(second), at(91));
    world.resourceClaim(resourceClaim({ pods: ['q', 'p'] }), at(92));
    world.pod(pod({ name: 'p', node: 'n1', phase: 'Succeeded', finishedAt: at(100) }), at(101));
    world.resourceClaim(resourceClaim({ pods: ['q'] }), at(103));
    world.pod(pod({ ...second, phase: 'Failed', finishedAt: at(200) }), at(201));
    expect(seconds(world.close(START, START + HOUR).events)).toBe(200);
  });
});
