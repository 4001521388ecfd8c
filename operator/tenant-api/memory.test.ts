import { describe, expect, test } from 'vitest';
import { NODE_SETTINGS } from '../metering/meters/testing/objects.ts';
import { projectNode } from '../metering/timelines/node.ts';
import { createObservation } from '../metering/timelines/observation.ts';
import { ApiLimiter, FirstLists, DEFAULT_LIMITS } from './limits.ts';
import { SharedMemory } from './memory.ts';
import { statesIn } from './tenant-watches.ts';

const MIB = 1024 * 1024;
const arrival = { at: 0, knownUntil: 0, late: false };
const MANY = 2_000;

/** A tenant cluster whose API shows such nodes, each of some tens of kilobytes on the wire. */
function tenant(memory = new SharedMemory()) {
  const reported: string[] = [];
  const limiter = new ApiLimiter({
    limits: DEFAULT_LIMITS,
    now: () => 0,
    onExceeded: (reason) => reported.push(reason),
    firstLists: new FirstLists(),
    memory,
    isListed: () => true,
    states: () => 0,
  });
  const nodes = limiter.handler('nodes');
  let made = 0;
  const show = (count: number, shape: (node: number) => object): void => {
    for (let each = 0; each < count; each += 1) {
      made += 1;
      const view = projectNode({ ...shape(made), metadata: metadataOf(made, shape(made)) });
      if (view !== undefined) nodes.upserted(view, undefined, arrival);
    }
  };
  return { reported, limiter, show };
}

function metadataOf(node: number, shape: object): object {
  const given = 'metadata' in shape ? (shape.metadata as object) : {};
  return { ...given, name: `n${node}`, uid: `u${node}` };
}

function many(text: (index: number) => string): Record<string, string> {
  return Object.fromEntries(Array.from({ length: MANY }, (_, index) => [text(index), '1']));
}

const labelled = (node: number): object => ({ metadata: { labels: many((i) => `a${node}-${i}`) } });

describe('memory is not what was received', () => {
  test.each<[string, (node: number) => object]>([
    ['labels', labelled],
    ['resources', (node) => ({ status: { capacity: many((i) => `x.example/a${node}-${i}`) } })],
    [
      'taints',
      () => ({ spec: { taints: Array.from({ length: MANY }, (_, i) => ({ key: `k${i}` })) } }),
    ],
  ])('a tenant’s valid nodes of many %s are left alone at 64 MiB of memory', (_, shape) => {
    const { reported, show } = tenant();
    show(60, shape);
    expect(reported).toEqual([]);
    show(300, shape);
    expect(reported[0]).toBe(`objects of more than ${64 * MIB} bytes`);
  });

  test('a node that announces kinds of GPUs without an end has 64 of them', () => {
    const settings = { nodeSettings: () => NODE_SETTINGS, billedUntil: (at: number) => at };
    const observation = createObservation(settings);
    const labels = many((i) => `nvidia.com/mig-1g.${i}gb.count`);
    const node = projectNode({ metadata: { name: 'n', uid: 'u', labels } });
    if (node === undefined) throw new Error('no node');
    observation.nodes.upserted(node, undefined, arrival);
    const [timeline] = observation.nodes.inNamespace('');
    const state = timeline?.spans.at(-1)?.state;
    expect(state?.devices.size).toBeLessThanOrEqual(64 + NODE_SETTINGS.gpuResources.length + 1);
    expect(state?.decidedBy?.gpu).toHaveLength(192);
    // A state with many devices counts as many: changes of it fill the memory sooner.
    expect(statesIn(observation)).toBeGreaterThan(64);
  });
});

describe('all tenants’ APIs together', () => {
  test('hold no more than there is, the largest meets its limit first, and a small one goes on', () => {
    const memory = new SharedMemory(40 * MIB);
    const [large, medium, small] = [tenant(memory), tenant(memory), tenant(memory)];
    large.show(80, labelled);
    expect(large.reported).toEqual([]);
    large.show(20, labelled);
    expect(large.reported[0]).toContain(`than is free of the ${40 * MIB} bytes for all APIs`);
    medium.show(30, labelled);
    expect(medium.reported).toEqual([]);
    medium.show(30, labelled);
    expect(medium.reported).not.toEqual([]);
    small.show(5, labelled);
    expect(small.reported).toEqual([]);
  });

  test('have room again for what a tenant cluster that is gone has held', () => {
    const memory = new SharedMemory(40 * MIB);
    const [gone, next] = [tenant(memory), tenant(memory)];
    gone.show(80, labelled);
    gone.limiter.close();
    next.show(80, labelled);
    expect(next.reported).toEqual([]);
  });
});
