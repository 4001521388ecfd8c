import { describe, expect, test } from 'vitest';
import { createTally } from '../meters/tally.ts';
import { NODE_SETTINGS } from '../meters/testing/objects.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import { projectNode } from '../timelines/node.ts';
import { createObservation } from '../timelines/observation.ts';
import { withinBudget } from './work-budget.ts';

function setUp(budget: { readonly ms?: number; readonly charges?: number }) {
  const observation = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  for (let index = 0; index < 100; index += 1) {
    const node = projectNode(gpuNode({ ...N1, name: `n${index}` }));
    if (node === undefined) throw new Error('a node');
    observation.nodes.upserted(node, undefined, { at: 1, knownUntil: 1, late: false });
  }
  const clock = { now: 0 };
  const tally = createTally();
  const complete = { ms: 500, charges: 10, ...budget };
  return { clock, ...withinBudget({ observation, tally }, complete, () => clock.now) };
}

describe('a tenant’s objects keep a meter busy', () => {
  test('it ends soon after its time, in the middle of what it looks at', () => {
    const { clock, observation } = setUp({});
    let read = 0;
    const readAll = (): void => {
      for (const node of observation.nodes.inNamespace('')) {
        read += node.spans.length;
        clock.now += 20;
      }
    };
    expect(readAll).toThrow('measuring a window takes longer than it may');
    expect(read).toBeLessThan(50);
  });

  test('as many charges as it may make are made, those that it comes back to counting once', () => {
    const { tally } = setUp({});
    const charge = (name: number) =>
      tally.charge({
        tenant: 't',
        metric: 'tenant_private_node_hours',
        region: 'r',
        resource_id: `n${name}`,
      });
    for (let index = 0; index < 30; index += 1) charge(index % 10);
    expect(() => charge(10)).toThrow('more than 10 events in a window');
  });

  test('what stays within its budget sees everything', () => {
    const { observation } = setUp({});
    expect([...observation.nodes.inNamespace('')]).toHaveLength(100);
    expect([...observation.nodes.namespaces()].map(([, nodes]) => [...nodes].length)).toEqual([
      100,
    ]);
  });
});
