import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { buildCatalog } from '../../model/catalog.ts';
import { testEvent, type TestEvent } from '../../ledger/testing/events.ts';
import { testTenant } from '../testing/context.ts';
import {
  createMetronomeWorld,
  DAY_MS,
  HOUR_MS,
  METRONOME_METRICS,
  METRONOME_NOW,
  type MetronomeWorld,
  NEVER,
} from './testing/metronome-world.ts';

const CREATE = '/v1/billable-metrics/create';

let world: MetronomeWorld;

beforeEach(async () => {
  world = await createMetronomeWorld();
});
afterEach(() => world.close());

test('every metric sums the value and has one compound group key, each key of which must exist', async () => {
  await world.bootstrap();
  const { metrics } = world.metronome.state;
  expect(metrics).toHaveLength(10);
  expect(metrics.find(({ name }) => name === 'GPU hours [tenant_gpu_hours]')).toMatchObject({
    aggregation_type: 'SUM',
    aggregation_key: 'value',
    event_type_filter: { in_values: ['tenant_gpu_hours'] },
    property_filters: [
      { name: 'value', exists: true },
      { name: 'region', exists: true },
      { name: 'sku', exists: true },
      { name: 'capacity_type', exists: true },
      { name: 'billing_mode', exists: true },
      { name: 'tenant_cluster', exists: true },
    ],
    group_keys: [['region', 'sku', 'capacity_type', 'billing_mode', 'tenant_cluster']],
  });
  expect(metrics.find(({ name }) => name.endsWith('[tenant_inference_tokens]'))).toMatchObject({
    group_keys: [
      ['model', 'provider', 'token_type', 'context_tier', 'service_tier', 'tenant_cluster'],
    ],
  });
  expect(metrics.every(({ group_keys }) => group_keys.length === 1)).toBe(true);
});

test('a restart creates nothing that is there', async () => {
  await world.bootstrap();
  await world.restart().bootstrap(METRONOME_METRICS, NEVER);
  expect(world.requests(CREATE)).toHaveLength(10);
});

test('a metric of one’s own is grouped by the keys that it declares', async () => {
  const built = buildCatalog([
    { code: 'tokens', unit: 'tokens', dimensions: ['model', 'tier'] },
    { code: 'calls', unit: 'calls', dimensions: [] },
  ]);
  if (built.kind === 'invalid') throw new Error(built.problems.join());
  await world.bootstrap(built.catalog.metrics.filter(({ source }) => source === 'custom'));
  expect(world.metronome.state.metrics.map(({ name, group_keys }) => [name, group_keys])).toEqual([
    ['tokens [tokens]', [['model', 'tier']]],
    ['calls [calls]', [['tenant_cluster']]],
  ]);
});

test('a lost answer creates no second metric', async () => {
  world.metronome.misbehaviours.add({ kind: 'commit-then-reset', path: CREATE, times: 1 });
  const first = await world.destination.bootstrap(METRONOME_METRICS, NEVER);
  expect(first.kind).toBe('retry');
  await world.bootstrap();
  expect(world.metronome.state.metrics).toHaveLength(10);
});

test('a stored 500 is got over with a new key', async () => {
  world.metronome.misbehaviours.add({ kind: 'status', status: 500, path: CREATE, times: 1 });
  const first = await world.destination.bootstrap(METRONOME_METRICS, NEVER);
  expect(first).toMatchObject({ kind: 'retry', reason: 'Metronome API error 500' });
  await world.bootstrap();
  expect(world.metronome.state.metrics).toHaveLength(10);
});

test('a wrong token is reported as such', async () => {
  world.metronome.misbehaviours.add({ kind: 'status', status: 401, body: { message: 'no' } });
  expect(await world.destination.bootstrap(METRONOME_METRICS, NEVER)).toEqual({
    kind: 'blocked',
    reason: 'Metronome API error 401: check the API token',
  });
});

describe('a metric that no longer does', () => {
  const LB = METRONOME_METRICS.filter(({ code }) => code === 'tenant_instance_hours');
  let old: string;

  /** A metric from before tenant classes, and a product that bills from it. */
  beforeEach(async () => {
    old = await world.asOperator(CREATE, {
      name: 'Tenant cluster instance hours [tenant_instance_hours]',
      aggregation_type: 'SUM',
      aggregation_key: 'value',
      event_type_filter: { in_values: ['tenant_instance_hours'] },
      property_filters: ['value', 'region'].map((name) => ({ name, exists: true })),
      group_keys: [['region']],
    });
    await world.asOperator('/v1/contract-pricing/products/create', {
      name: 'Instances',
      type: 'USAGE',
      billable_metric_id: old,
      pricing_group_key: ['region'],
    });
  });

  async function send(wish: TestEvent): Promise<void> {
    const [outcome] = await world.destination.send([testEvent(wish)], NEVER);
    expect(outcome).toEqual({ kind: 'delivered' });
  }

  test('hands its products over at a full hour, and nothing is billed twice or not at all', async () => {
    await world.ready();
    const [, current] = world.metronome.state.metrics.filter(({ name }) =>
      name.includes('instance'),
    );
    expect(current?.group_keys).toEqual([['region', 'tenant_class', 'tenant_cluster']]);
    expect(world.metronome.state.products[0]?.updates).toMatchObject([
      {
        billable_metric_id: current?.id,
        presentation_group_key: ['tenant_class', 'tenant_cluster'],
        starting_at: '2026-11-21T10:00:00.000Z',
      },
    ]);
    await send({ id: 'before' });
    world.now = METRONOME_NOW + HOUR_MS;
    await send({ id: 'after', windowStart: world.now - 60_000 });
    // Both metrics count both events; a product bills from one metric at a time.
    const total = await world.destination.sums.total(
      {
        tenant: testTenant(),
        metric: 'tenant_instance_hours',
        from: Math.floor(METRONOME_NOW / DAY_MS) * DAY_MS,
        to: Math.ceil(METRONOME_NOW / DAY_MS) * DAY_MS,
      },
      NEVER,
    );
    expect(total).toEqual({ kind: 'total', quantity: '0.033333334' });
  });

  test('is handed over once, and archived when nothing can come for it any more', async () => {
    await world.bootstrap(LB);
    await world.restart().bootstrap(LB, NEVER);
    expect(world.metronome.state.products[0]?.updates).toHaveLength(1);
    const [predecessor] = world.metronome.state.metrics;
    expect(predecessor?.archived_at).toBeUndefined();
    world.now = METRONOME_NOW + 36 * DAY_MS;
    await world.bootstrap(LB);
    expect(predecessor?.archived_at).toBeDefined();
  });

  test('stays where its product is priced by keys that the new one lacks', async () => {
    const wide = await world.asOperator(CREATE, {
      name: 'GPU hours [tenant_gpu_hours]',
      aggregation_type: 'SUM',
      aggregation_key: 'value',
      event_type_filter: { in_values: ['tenant_gpu_hours'] },
      property_filters: ['value', 'zone'].map((name) => ({ name, exists: true })),
      group_keys: [['zone']],
    });
    await world.asOperator('/v1/contract-pricing/products/create', {
      name: 'GPUs',
      type: 'USAGE',
      billable_metric_id: wide,
      pricing_group_key: ['zone'],
    });
    await world.bootstrap();
    expect(world.metronome.state.products[1]?.updates).toEqual([]);
    expect(world.context.logger.lines.join('\n')).toContain(
      'product "GPUs" stays with its metric: "GPU hours [tenant_gpu_hours]" has no group key with all of zone',
    );
  });

  test('is left alone when it counts only a part of the usage', async () => {
    const part = await world.asOperator(CREATE, {
      name: 'Spot GPUs [tenant_gpu_hours]',
      aggregation_type: 'SUM',
      aggregation_key: 'value',
      event_type_filter: { in_values: ['tenant_gpu_hours'] },
      property_filters: [
        { name: 'value', exists: true },
        { name: 'capacity_type', exists: true, in_values: ['spot'] },
      ],
      group_keys: [],
    });
    await world.bootstrap();
    const metric = world.metronome.state.metrics.find(({ id }) => id === part);
    expect(metric?.archived_at).toBeUndefined();
    expect(
      world.metronome.state.metrics.filter(({ name }) => name.includes('gpu_hours')),
    ).toHaveLength(2);
  });
});
