import { describe, expect, test } from 'vitest';
import { tenancyOf } from '../timelines/inside-tenant.ts';
import { createOwners, nodesByName } from './node-owners.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { closed, dedicatedTo, MANAGED_BY, sums } from './testing/node-hours.ts';
import { cluster, iso } from './testing/objects.ts';
import { createWorld, HOUR, START, type World } from './testing/world.ts';

const MINUTE = 60_000;
const settings = {
  region: 'default',
  regionFromNode: false,
  sampleValidMs: HOUR,
  gpuResources: [],
  draGpuDrivers: [],
};
const spot = { 'karpenter.sh/capacity-type': 'spot' };

/** States of node `n1` in the hour: from, to in minutes, capacity type, and whether it was down. */
function lookedUp({ observation }: World, [from, to] = [0, 60], asBilled = false) {
  const lookup = nodesByName({ observation, settings });
  return lookup('n1', START + from * MINUTE, START + to * MINUTE, asBilled).map((stretch) => [
    (stretch.from - START) / MINUTE,
    (stretch.to - START) / MINUTE,
    stretch.state?.capacityType,
    stretch.state?.down === true,
  ]);
}

/** Node `n1` that is down from a minute of the hour on. */
const down = (minute: number) =>
  gpuNode({
    ...N1,
    taints: [
      {
        key: 'node.kubernetes.io/unreachable',
        effect: 'NoExecute',
        timeAdded: iso(START + minute * MINUTE),
      },
    ],
  });

describe('a pod is billed for another node than it was on', () => {
  test('where the node was made again under its name, whichever of both was listed first', () => {
    const old = gpuNode(N1);
    const { metadata, ...rest } = gpuNode({ ...N1, labels: { ...N1.labels, ...spot } });
    const uid = 'uid-again';
    const created = iso(START + 30 * MINUTE);
    const again = { ...rest, metadata: { ...Object(metadata), uid, creationTimestamp: created } };
    const [inOrder, reversed] = [createWorld(), createWorld()];
    inOrder.node(old);
    inOrder.nodeGone(old, START + 20 * MINUTE);
    inOrder.node(again, START + 30 * MINUTE);
    reversed.node(again, START + 30 * MINUTE);
    reversed.node(old);
    reversed.nodeGone(old, START + 20 * MINUTE);
    for (const world of [inOrder, reversed]) {
      expect(lookedUp(world)).toStrictEqual([
        [0, 30, 'on-demand', false],
        [30, 60, 'spot', false],
      ]);
      expect(lookedUp(world, [30, 60])).toStrictEqual([[30, 60, 'spot', false]]);
      expect(lookedUp(world, [0, 30])).toStrictEqual([[0, 30, 'on-demand', false]]);
    }
  });

  test('before its node is known, after it is gone, or where it never was', () => {
    const world = createWorld();
    expect(lookedUp(world)).toStrictEqual([[0, 60, undefined, false]]);
    world.node(gpuNode(N1), START + 10 * MINUTE);
    world.nodeGone(gpuNode(N1), START + 20 * MINUTE);
    expect(lookedUp(world)).toStrictEqual([[0, 60, 'on-demand', false]]);
  });

  test('where it is taken back: what was billed is what closed windows went by', () => {
    const world = createWorld();
    world.node(gpuNode(N1));
    world.close(START, START + 30 * MINUTE);
    world.node(down(20), START + 31 * MINUTE);
    expect(lookedUp(world, [0, 30])).toStrictEqual([
      [0, 20, 'on-demand', false],
      [20, 30, 'on-demand', true],
    ]);
    expect(lookedUp(world, [0, 30], true)).toStrictEqual([[0, 30, 'on-demand', false]]);
  });
});

test('a node of a tenant cluster’s own is nobody’s while that is not there, and no time of it is left out', () => {
  const { observation } = createWorld();
  const [first, second] = [cluster('a'), cluster('a', { privateNodeBilling: 'usage' })];
  observation.tenantClusters.observe(
    [{ ...first, createdAt: START + 10 * MINUTE }],
    START + 10 * MINUTE,
  );
  observation.tenantClusters.observe([second], START + 40 * MINUTE);
  observation.tenantClusters.observe([], START + 50 * MINUTE);
  const tenantClusters = tenancyOf(observation.tenantClusters, first.id);
  const owners = createOwners({
    observation: { ...observation, tenantClusters },
    settings,
    privateNodes: true,
  });
  const world = createWorld();
  world.node(gpuNode(N1));
  const [timeline] = world.observation.nodes.inNamespace('');
  const state = timeline?.spans[0]?.state;
  if (state === undefined) throw new Error('no node');
  const reported = (from: number, to: number) =>
    owners(state, START + from * MINUTE, START + to * MINUTE).map((stretch) => [
      (stretch.from - START) / MINUTE,
      (stretch.to - START) / MINUTE,
      stretch.owner?.id,
    ]);
  expect(reported(0, 60)).toStrictEqual([
    [0, 10, undefined],
    [10, 40, first.id],
    [40, 50, undefined],
    [50, 60, undefined],
  ]);
  expect(reported(20, 30)).toStrictEqual([[20, 30, first.id]]);
  expect(owners({ ...state, foreign: true }, START, START + HOUR)).toStrictEqual([
    { from: START, to: START + HOUR, owner: undefined, rivals: [] },
  ]);
});

test('a node is billed to a tenant cluster because of what follows no prefix, or of another kind of tenants', () => {
  const plain = cluster('other', {}, { namespace: 'x-tenant' });
  const external = cluster('external', {}, { namespace: 'x', source: 'external' });
  const tenants = cluster('x', {}, { namespace: 'tenant-x', source: 'namespaces' });
  for (const value of ['x', 'tenant', 'external']) {
    const { events, diagnostics } = closed({
      nodes: [dedicatedTo(N1, MANAGED_BY, value)],
      clusters: [plain, external, tenants],
    });
    expect(sums(events)).toStrictEqual([0, 0, 0, 0, 0]);
    expect(diagnostics.contested.size).toBe(0);
  }
});
