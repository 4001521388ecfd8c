import { describe, expect, test } from 'vitest';
import { PRIVATE_NODE_LABELS, type ProviderStatement } from '../timelines/provided-node.ts';
import { gpuNode, H100, N1, N2, type NodeFixture, variant } from './testing/gpu-nodes.ts';
import { GPU, hourOf, METRICS, only, sums, COMPLETE } from './testing/node-hours.ts';
import { claim, cluster, iso, service } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type World } from './testing/world.ts';

const inside = 'tenant-tenant-a-a';
const NOTHING: ProviderStatement = { labels: {} };
const tainted = variant(N1, { taints: [{ key: 'node.kubernetes.io/unreachable' }] });
const MINUTE = 60_000;

/**
 * The node in these versions, each from its minute of the hour on; the first existed long before.
 */
function billed(versions: readonly (readonly [minute: number, node: NodeFixture])[]) {
  const world = worldOf(() => NOTHING);
  for (const [minute, version] of versions) world.node(gpuNode(version), START + minute * MINUTE);
  return world.close(START, START + HOUR).events;
}

function worldOf(providerStatement: () => ProviderStatement | undefined): World {
  const world = createWorld({ inside, providerStatement });
  world.clusters([cluster('a', { privateNodeTrust: 'provider' })]);
  return world;
}

const gpuTypes = (events: ReturnType<typeof billed>) =>
  events.flatMap(({ dimensions }) => dimensions?.['gpu_type'] ?? []);

describe('what only a tenant’s API reports is marked as unverified', () => {
  test('on everything that its own API shows, and on nothing of this cluster', () => {
    const build = (where: { readonly inside?: string }) => {
      const world = createWorld(where);
      world.clusters([cluster('a')]);
      world.node(gpuNode(N1));
      world.claim(claim({ name: 'v' }));
      world.service(service({ name: 's' }));
      return world.close(START, START + HOUR).events;
    };
    const own = build({ inside });
    expect(own).toHaveLength(6);
    expect(own.map(({ properties }) => properties?.['unverified'])).toEqual(own.map(() => true));
    const host = build({});
    expect(host.length).toBeGreaterThan(0);
    expect(host.filter(({ properties }) => 'unverified' in (properties ?? {}))).toEqual([]);
  });

  test('where the tenant’s API is trusted a taint is downtime (P11), and marked', () => {
    const events = hourOf({ nodes: [tainted], inside });
    expect(sums(events)).toEqual([0, 0, 8, 0, 0]);
    expect(only(events, 'down').properties?.['unverified']).toBe(true);
  });

  test('what the provider’s record confirms is not marked', () => {
    const events = hourOf({
      nodes: [N1],
      inside,
      providerStatement: () => ({ ...NOTHING, source: 'Machine fleet/n1' }),
    });
    expect(sums(events)).toEqual(COMPLETE);
    expect(events.filter(({ properties }) => 'unverified' in (properties ?? {}))).toEqual([]);
  });
});

describe('a tenant whose API is not trusted pays for its machines', () => {
  test('although it taints them', () => {
    expect(
      sums(
        billed([
          [-60, N1],
          [10, tainted],
          [50, N1],
        ]),
      ),
    ).toEqual(COMPLETE);
  });

  test('although its plugins offer no GPUs, or name none any more', () => {
    const none = variant(N1, { allocatable: { [GPU]: '0' } });
    const hidden = variant(N1, {
      capacity: { [GPU]: null },
      labels: { 'nvidia.com/gpu.count': null, 'nvidia.com/gpu.product': null },
    });
    const events = billed([
      [-60, N1],
      [10, none],
      [30, hidden],
    ]);
    expect(sums(events)).toEqual(COMPLETE);
    expect(new Set(gpuTypes(events))).toEqual(new Set([H100]));
  });

  test('at the price on demand, whatever their labels', () => {
    const spot = variant(N1, { labels: { 'karpenter.sh/capacity-type': 'spot' } });
    expect(sums(billed([[-60, spot]]), { capacity_type: 'on-demand' })).toEqual([
      1, 8, 0, 192, 2048,
    ]);
  });

  test('under the model, type and size that they had', () => {
    const cheaper = variant(N1, {
      labels: {
        'nvidia.com/gpu.product': 'Tesla-T4',
        'node.kubernetes.io/instance-type': 't4.small',
        'nvidia.com/gpu.count': '1',
      },
      capacity: { cpu: '2', memory: '4Gi', [GPU]: '1' },
    });
    const events = billed([
      [-60, N1],
      [20, cheaper],
    ]);
    expect(sums(events)).toEqual(COMPLETE);
    expect(new Set(gpuTypes(events))).toEqual(new Set([H100]));
    expect(only(events, 'node').sku).toBe('p5.48xlarge');
  });

  test('and small steps upwards first do not make it forget', () => {
    const steps = [0, 1, 2, 3, 4, 5].map((step) => {
      const more = variant(N1, { capacity: { cpu: `${192 + step}` } });
      return [step * 5, more] as const;
    });
    const cheaper = variant(N1, { labels: { 'nvidia.com/gpu.product': 'Tesla-T4' } });
    const events = billed([[-60, N1], ...steps, [40, cheaper]]);
    expect(new Set(gpuTypes(events))).toEqual(new Set([H100]));
  });
});

describe('an honest node of a tenant whose API is not trusted', () => {
  test('is read again while it has just joined and its labels are on their way', () => {
    const created = { creationTimestamp: iso(START) };
    const bare = variant(N2, {
      labels: {
        'nvidia.com/gpu.count': null,
        'nvidia.com/gpu.replicas': null,
        'nvidia.com/gpu.product': null,
        'nvidia.com/gpu.sharing-strategy': null,
      },
    });
    const world = worldOf(() => NOTHING);
    const at = (fixture: NodeFixture) => {
      const object = gpuNode(fixture);
      return { ...object, metadata: { ...(object['metadata'] as object), ...created } };
    };
    world.node(at(bare), START);
    world.node(at(N2), START + MINUTE);
    const { events } = world.close(START, START + HOUR);
    // Sixteen devices without a sharing label count as full ones for that minute.
    expect(total(events, METRICS.gpu)).toBeCloseTo(16 / 60 + (4 * 59) / 60, 8);
  });

  test('that gets more of what it has is charged for it', () => {
    const more = variant(N1, { capacity: { cpu: '384' } });
    expect(
      sums(
        billed([
          [-60, N1],
          [30, more],
        ]),
      )[3],
    ).toBe(96 + 192);
  });
});

describe('where a tenant’s API is trusted, what lowers the price of its nodes is reported', () => {
  const trusting = () => {
    const world = createWorld({ inside });
    world.clusters([cluster('a')]);
    return world;
  };

  test('that a node is down, how often it goes down, and what it is called from then on', () => {
    const world = trusting();
    world.node(gpuNode(N1), START - HOUR);
    world.node(gpuNode(tainted), START + 10 * MINUTE);
    world.node(gpuNode(N1), START + 20 * MINUTE);
    const renamed = {
      'karpenter.sh/capacity-type': 'spot',
      'nvidia.com/gpu.product': 'Tesla-T4',
      'node.kubernetes.io/instance-type': null,
    };
    world.node(gpuNode(variant(N1, { labels: renamed })), START + 30 * MINUTE);
    world.node(gpuNode(N1), START + 40 * MINUTE);
    const { diagnostics } = world.close(START, START + HOUR);
    expect(diagnostics.privateNodeReport).toEqual({
      nodeMs: HOUR,
      downMs: 10 * MINUTE,
      flaps: 1,
      relabelled: new Set([
        `n1: GPU model "${H100}" → "Tesla-T4"`,
        'n1: instance type "p5.48xlarge" → ""',
        'n1: capacity type "on-demand" → "spot"',
        `n1: GPU model "Tesla-T4" → "${H100}"`,
      ]),
    });
    const next = world.close(START + HOUR, START + 2 * HOUR).diagnostics.privateNodeReport;
    expect(next).toEqual({ nodeMs: HOUR, downMs: 0, flaps: 0, relabelled: new Set() });
  });

  test('of a hundred changes at most', () => {
    const world = trusting();
    for (let change = 0; change <= 120; change += 1) {
      const labels = { 'node.kubernetes.io/instance-type': `t${change}` };
      world.node(gpuNode(variant(N1, { labels })), START + change * 1000);
    }
    const { diagnostics } = world.close(START, START + HOUR);
    expect(diagnostics.privateNodeReport?.relabelled.size).toBe(100);
  });

  test('and that it was down in closed windows, as reported late', () => {
    const world = trusting();
    world.node(gpuNode(N1), START - HOUR);
    world.close(START, START + HOUR);
    const key = 'node.kubernetes.io/unreachable';
    const taints = [{ key, effect: 'NoExecute', timeAdded: iso(START + 45 * MINUTE) }];
    world.node(gpuNode(variant(N1, { taints })), START + HOUR + MINUTE);
    const { diagnostics } = world.close(START + HOUR, START + 2 * HOUR);
    expect(diagnostics.privateNodeReport).toEqual({
      nodeMs: HOUR,
      downMs: HOUR + 15 * MINUTE,
      flaps: 1,
      relabelled: new Set(),
    });
  });

  test('and none of it where the API is not trusted, or on this cluster', () => {
    const provided = worldOf(() => NOTHING);
    provided.node(gpuNode(tainted), START - HOUR);
    expect(provided.close(START, START + HOUR).diagnostics.privateNodeReport).toMatchObject({
      nodeMs: 0,
    });
    const host = createWorld();
    host.node(gpuNode(tainted), START - HOUR);
    expect(host.close(START, START + HOUR).diagnostics.privateNodeReport).toBeUndefined();
  });
});

describe('the provider’s statement', () => {
  const stated = (labels: Readonly<Record<string, string>>): ProviderStatement => ({
    labels,
    source: PRIVATE_NODE_LABELS,
  });

  test('overrides the node, from its change until it is withdrawn', () => {
    let word: ProviderStatement = NOTHING;
    const world = worldOf(() => word);
    world.node(gpuNode(N1), START - HOUR);
    const change = (next: ProviderStatement, minute: number): void => {
      word = next;
      world.observation.nodes.refresh(START + minute * MINUTE);
    };
    change(
      stated({ 'karpenter.sh/capacity-type': 'reserved', 'nvidia.com/gpu.product': 'B200' }),
      15,
    );
    change(NOTHING, 45);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(sums(events, { capacity_type: 'reserved' })).toEqual([0.5, 4, 0, 96, 1024]);
    expect(sums(events, { capacity_type: 'on-demand' })).toEqual([0.5, 4, 0, 96, 1024]);
    expect(total(events, METRICS.gpu, { gpu_type: 'B200' })).toBe(4);
    expect(total(events, METRICS.gpu, { gpu_type: H100 })).toBe(4);
    expect(diagnostics.gpuBalances.map(({ unaccounted }) => unaccounted)).toEqual([0n, 0n]);
  });

  test('of a machine’s size, health and kind is what is billed', () => {
    const record = {
      cpu: 384_000_000_000n,
      memory: 0n,
      extended: new Map([[GPU, { capacity: 1, allocatable: 1 }]]),
      down: false,
    };
    let word: ProviderStatement = {
      labels: {
        'karpenter.sh/capacity-type': 'spot',
        'node.kubernetes.io/instance-type': 'p5.4xlarge',
      },
      record,
      source: 'NodeClaim default-x7',
    };
    const world = worldOf(() => word);
    world.node(gpuNode(N1), START - HOUR);
    word = { ...word, record: { ...record, down: true, downSince: START + HOUR / 2 } };
    world.observation.nodes.refresh(START + HOUR / 2);
    const { events } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0.5, 0.5, 0.5, 192, 1024]);
    expect(only(events, 'node')).toMatchObject({
      sku: 'p5.4xlarge',
      dimensions: { capacity_type: 'spot' },
    });
  });

  test('a machine keeps the values of its record when the record is gone', () => {
    let word: ProviderStatement = {
      labels: { 'karpenter.sh/capacity-type': 'spot' },
      source: 'NodeClaim x',
    };
    const world = worldOf(() => word);
    world.node(gpuNode(N1), START - HOUR);
    word = NOTHING;
    world.observation.nodes.refresh(START + HOUR / 2);
    const { events } = world.close(START, START + HOUR);
    expect(sums(events, { capacity_type: 'spot' })).toEqual(COMPLETE);
  });
});
