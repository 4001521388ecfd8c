import { describe, expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import { gpuNode, H100, N1, N7, type NodeFixture } from './testing/gpu-nodes.ts';
import {
  closed,
  GPU,
  hourOf,
  MANAGED_BY,
  METRICS,
  only,
  dedicatedTo,
  sums,
  COMPLETE,
} from './testing/node-hours.ts';
import { cluster } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type WorldOptions } from './testing/world.ts';

const CLUSTER = 'vcluster.loft.sh/cluster';
describe('a node is found by every label that dedicates it', () => {
  test.each<[string, NodeFixture, WorldOptions]>([
    ['N02: by the name of the namespace', dedicatedTo(N1, CLUSTER), {}],
    ['N03 managed-by', dedicatedTo(N1, MANAGED_BY, 'a'), {}],
    ['N03 cluster', dedicatedTo(N1, CLUSTER, 'a'), {}],
    ['N04: two labels that agree', dedicatedTo(dedicatedTo(N1), CLUSTER, 'a'), {}],
    [
      'N05: a label of your own',
      dedicatedTo(N1, 'dedicated-to', 'a'),
      { nodeSettings: { dedicatedNodeLabel: 'dedicated-to=%s' } },
    ],
  ])('%s', (_id, node, options) => {
    const events = hourOf({ nodes: [node], ...options });
    expect(sums(events)).toEqual(COMPLETE);
    expect(sums(events, { billing_mode: 'dedicated_node' })).toEqual(COMPLETE);
    expect(only(events, 'node').sku).toBe('p5.48xlarge');
    expect(only(events, 'gpu').sku).toBe(H100);
  });

  test('the namespace without its prefix is enough, whatever the cluster is called', () => {
    for (const namespace of ['tenant-x', 'vcluster-x', 'vc-x']) {
      const clusters = [cluster('other', {}, { namespace })];
      expect(sums(hourOf({ nodes: [dedicatedTo(N1, CLUSTER, 'x')], clusters }))).toEqual(COMPLETE);
    }
  });

  test('a node that nobody named is nobody’s', () => {
    expect(sums(hourOf({ nodes: [N1, dedicatedTo(N7, MANAGED_BY, 'b')] }))).toEqual([
      0, 0, 0, 0, 0,
    ]);
  });
});

describe('one node, one tenant', () => {
  const first = cluster('a');
  const second = cluster('b', {}, { namespace: 'a' });
  const ownersOf = (events: readonly UsageEvent[]) => [
    ...new Set(events.filter(({ metric }) => metric === METRICS.node).map(({ tenant }) => tenant)),
  ];

  test('the cluster’s name beats another’s namespace, which accident 24 billed to both', () => {
    const events = hourOf({ nodes: [dedicatedTo(N1, MANAGED_BY, 'a')], clusters: [first, second] });
    expect(ownersOf(events)).toEqual([first.tenant]);
    expect(sums(events)).toEqual(COMPLETE);
  });

  test('the exact namespace beats the one without its prefix', () => {
    const exact = cluster('x', {}, { namespace: 'a' });
    const stripped = cluster('y', {}, { namespace: 'tenant-a' });
    const events = hourOf({
      nodes: [dedicatedTo(N1, MANAGED_BY, 'a')],
      clusters: [exact, stripped],
    });
    expect(ownersOf(events)).toEqual([exact.tenant]);
  });

  test('VCLUSTER_NODE_LABEL beats them all', () => {
    const events = hourOf({
      nodes: [dedicatedTo(dedicatedTo(N1, MANAGED_BY, 'a'), 'dedicated-to', 'b')],
      clusters: [first, second],
      nodeSettings: { dedicatedNodeLabel: 'dedicated-to=%s' },
    });
    expect(ownersOf(events)).toEqual([second.tenant]);
  });

  test('an equal claim of two is billed to neither, listed, and its pods are billed as shared', () => {
    const { events, diagnostics } = closed({
      nodes: [dedicatedTo(N1)],
      clusters: [first, cluster('c')],
      pods: [{ name: 'p', node: 'n1', containers: [{ [GPU]: 2 }] }],
    });
    expect(sums(events)).toEqual([0, 2, 0, 0, 0]);
    expect([...diagnostics.contested]).toEqual([['n1', [first.id, 'tenant-tenant-a-c']]]);
  });

  test('a tenant cluster found late is billed for its node, and nobody else once more for theirs', () => {
    const other = cluster('b', {}, { namespace: 'tenant-b', createdAt: START + HOUR / 2 });
    const world = createWorld();
    world.node(gpuNode(dedicatedTo(N1)));
    world.node(gpuNode(dedicatedTo(N7, MANAGED_BY, 'tenant-b')));
    world.clusters([first]);
    expect(sums(world.close(START, START + HOUR).events)).toEqual(COMPLETE);
    world.clusters([first, other], START + HOUR + 60_000);
    const { events } = world.close(START + HOUR, START + 2 * HOUR);
    expect(sums(events, { tenant: first.tenant })).toEqual(COMPLETE);
    expect(sums(events, { tenant: other.tenant })).toEqual([1.5, 0, 0, 12, 48]);
    const carried = events.filter(({ tenant }) => tenant === other.tenant);
    expect(carried.map(({ properties }) => properties?.['carried_seconds'])).toEqual([
      1800, 1800, 1800,
    ]);
  });

  test('a tenant cluster found late is not billed for its node before the first window', () => {
    const world = createWorld();
    world.node(gpuNode(dedicatedTo(N7)));
    expect(world.close(START, START + HOUR).events).toEqual([]);
    world.clusters([first], START + HOUR + 60_000);
    expect(sums(world.close(START + HOUR, START + 2 * HOUR).events)).toEqual([2, 0, 0, 16, 64]);
  });

  test('a node whose label changes belongs to each for its time', () => {
    const world = createWorld();
    const other = cluster('b', {}, { namespace: 'tenant-b' });
    world.clusters([first, other]);
    world.node(gpuNode(dedicatedTo(N1)));
    world.node(gpuNode(dedicatedTo(N1, MANAGED_BY, 'tenant-b')), START + HOUR / 4);
    const { events } = world.close(START, START + HOUR);
    expect(total(events, METRICS.node, { tenant: first.tenant })).toBe(0.25);
    expect(total(events, METRICS.gpu, { tenant: other.tenant })).toBe(6);
  });
});
