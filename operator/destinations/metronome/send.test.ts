import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { invoiceItems } from '../../../e2e/fakes/metronome/usage.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryOutcome } from '../destination.ts';
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

const INGEST = '/v1/ingest';
const TODAY = Math.floor(METRONOME_NOW / DAY_MS) * DAY_MS;

let world: MetronomeWorld;

beforeEach(async () => {
  world = await createMetronomeWorld({ rateCard: 'standard' });
  await world.rateCard('standard');
  await world.ready();
});
afterEach(() => world.close());

const send = (events: readonly UsageEvent[]): Promise<readonly DeliveryOutcome[]> =>
  world.destination.send(events, NEVER);

function kindsOf(outcomes: readonly DeliveryOutcome[]): readonly string[] {
  return [...new Set(outcomes.map(({ kind }) => kind))];
}

test('an event carries every group key, all values as text, the quantity last', async () => {
  const event: UsageEvent = {
    ...testEvent({ id: 'one', quantity: '0.000000001' }),
    dimensions: { tenant_cluster: 'tenant-vcluster-a-a', value: '999' },
  };
  expect(await send([event])).toEqual([{ kind: 'delivered' }]);
  expect(world.requests(INGEST)).toEqual([
    {
      body: [
        {
          transaction_id: 'one',
          customer_id: world.metronome.state.customers[0]?.id,
          event_type: 'tenant_instance_hours',
          timestamp: '2026-11-21T09:00:00Z',
          properties: {
            value: '0.000000001',
            region: 'eu-central-1',
            tenant_class: 'none',
            tenant_cluster: 'tenant-vcluster-a-a',
            unit: 'hours',
            window_start: '2026-11-21T09:00:00Z',
            window_end: '2026-11-21T09:01:00Z',
            schema_version: 'svc.usage/v1',
            source: 'collector',
          },
        },
      ],
    },
  ]);
  expect(invoiceItems(world.metronome.state)).toHaveLength(1);
});

test('calls have at most 100 events, and no event overtakes another of its tenant', async () => {
  const events = Array.from({ length: 350 }, (_, index) => testEvent({ id: `e${index}` }));
  expect(kindsOf(await send(events))).toEqual(['delivered']);
  const sizes = world.requests(INGEST).map(({ body }) => (body as unknown[]).length);
  expect(sizes).toEqual([100, 100, 100, 50]);
  expect(world.metronome.state.events.map(({ transaction_id }) => transaction_id)).toEqual(
    events.map(({ id }) => id),
  );
});

test('a repeat of what Metronome has is delivered, and billed once', async () => {
  const event = testEvent();
  world.metronome.misbehaviours.add({ kind: 'commit-then-reset', path: INGEST, times: 1 });
  expect(kindsOf(await send([event]))).toEqual(['retry']);
  expect(kindsOf(await send([event]))).toEqual(['delivered']);
  expect(invoiceItems(world.metronome.state)).toHaveLength(1);
});

test('a 400 says nothing of which event, so the call is to be split', async () => {
  const tooOld = testEvent({ id: 'old', windowStart: METRONOME_NOW - 40 * DAY_MS });
  const contract = world.metronome.state.contracts[0];
  Object.assign(contract ?? {}, { starting_at: new Date(TODAY - 60 * DAY_MS).toISOString() });
  await world.ready();
  expect(kindsOf(await send([testEvent(), tooOld]))).toEqual(['split']);
  expect(await send([tooOld])).toEqual([
    {
      kind: 'split',
      reason: 'Metronome API error 400: timestamp is too far in the past',
    },
  ]);
});

test.each([
  [{ 'retry-after': '7' }, 7_000],
  [{ 'retry-after-ms': '250' }, 250],
  [{ 'x-ratelimit-reset': '12' }, 12_000],
  [{ 'ratelimit-reset': String(METRONOME_NOW / 1000 + 30) }, 30_000],
  [{}, undefined],
])('a rate limit is obeyed as its headers say: %j', async (headers, afterMs) => {
  world.metronome.misbehaviours.add({ kind: 'status', status: 429, path: INGEST, headers });
  expect(await send([testEvent()])).toEqual([
    {
      kind: 'retry',
      reason: 'Metronome API error 429: rate limit',
      afterMs,
    },
  ]);
});

test('a line in trouble is not gone on with', async () => {
  const events = Array.from({ length: 250 }, (_, index) => testEvent({ id: `e${index}` }));
  world.metronome.misbehaviours.add({ kind: 'status', status: 503, path: INGEST, times: 1 });
  expect(kindsOf(await send(events))).toEqual(['retry']);
  expect(world.requests(INGEST)).toHaveLength(1);
});

test('an address that is not Metronome’s holds the destination', async () => {
  world.metronome.misbehaviours.add({
    kind: 'status',
    status: 404,
    path: INGEST,
    body: 'nothing here',
  });
  expect(kindsOf(await send([testEvent()]))).toEqual(['blocked']);
});

describe('what Metronome would take and never bill', () => {
  test('an event of a tenant without a customer waits for it', async () => {
    expect(kindsOf(await send([testEvent({ tenant: 'tenant-b' })]))).toEqual(['provision']);
    expect(world.requests(INGEST)).toEqual([]);
  });

  test('an event of a metric that Metronome lacks is not sent', async () => {
    const event = { ...testEvent(), metric: 'unheard_of' };
    expect(await send([event])).toEqual([
      {
        kind: 'rejected',
        reason: 'Metronome has no billable metric of this code: metric: "unheard_of"',
      },
    ]);
  });

  test('an event from before the contract is not sent', async () => {
    const [outcome] = await send([testEvent({ windowStart: METRONOME_NOW - 3 * DAY_MS })]);
    expect(outcome).toMatchObject({
      kind: 'rejected',
      reason: expect.stringContaining('before the contract began, 2026-11-20T12:00:00.000Z'),
    });
  });

  test('an event after the end of the contract waits for the next one', async () => {
    await world.destination.customers.offboard(testTenant(), NEVER);
    await world.destination.customers.provision(testTenant(), NEVER);
    const [contract] = world.metronome.state.contracts;
    Object.assign(contract ?? {}, { ending_before: '2026-11-21T10:00:00.000Z' });
    world.now += 2 * HOUR_MS;
    await world.ready();
    const event = testEvent({ windowStart: METRONOME_NOW + HOUR_MS });
    expect(kindsOf(await send([event]))).toEqual(['delivered']);
    expect(world.metronome.state.contracts).toHaveLength(2);
  });
});

test('what Metronome has can be searched, by id', async () => {
  const there = Array.from({ length: 120 }, (_, index) => testEvent({ id: `e${index}` }));
  await send(there);
  const requested = [...there, testEvent({ id: 'absent' })];
  const outcome = await world.destination.verify?.(requested, NEVER);
  expect(outcome).toEqual({ kind: 'verified', known: new Set(there.map(({ id }) => id)) });
});

test('what Metronome recorded is reported by full days, also by a process that has sent nothing', async () => {
  await send([testEvent({ id: 'a', quantity: '0.1' }), testEvent({ id: 'b', quantity: '0.2' })]);
  const fresh = world.restart();
  await fresh.bootstrap(METRONOME_METRICS, NEVER);
  const query = { tenant: testTenant(), metric: 'tenant_instance_hours', from: TODAY };
  expect(await fresh.sums.total({ ...query, to: TODAY + DAY_MS }, NEVER)).toEqual({
    kind: 'total',
    quantity: '0.3',
  });
});

describe('usage without a price', () => {
  test('is what no rate of the rate card concerns', async () => {
    const { metrics, rateCards } = world.metronome.state;
    const gpu = metrics.find(({ name }) => name.includes('tenant_gpu_hours'));
    const product_id = await world.asOperator('/v1/contract-pricing/products/create', {
      name: 'GPUs',
      type: 'USAGE',
      billable_metric_id: gpu?.id,
      pricing_group_key: ['sku', 'capacity_type'],
      presentation_group_key: ['region', 'billing_mode', 'tenant_cluster'],
    });
    await world.asOperator('/v1/contract-pricing/rate-cards/addRate', {
      rate_card_id: rateCards[0]?.id,
      product_id,
      starting_at: '2026-11-01T00:00:00Z',
      entitled: true,
      rate_type: 'FLAT',
      price: 0,
      pricing_group_values: { sku: 'H100', capacity_type: 'on-demand' },
    });
    const gpuEvent = (id: string, sku: string, capacity_type: string): UsageEvent => ({
      ...testEvent({ id, sku }),
      metric: 'tenant_gpu_hours',
      dimensions: { tenant_cluster: 'tenant-vcluster-a-a', capacity_type },
    });
    await send([
      gpuEvent('priced', 'H100', 'on-demand'),
      gpuEvent('spot', 'H100', 'spot'),
      gpuEvent('other', 'L40S', 'on-demand'),
      testEvent(),
    ]);
    const plan = 'Card standard';
    expect(world.destination.prices.unpriced()).toEqual([
      { plan, metric: 'tenant_gpu_hours', sku: 'H100' },
      { plan, metric: 'tenant_gpu_hours', sku: 'L40S' },
      { plan, metric: 'tenant_instance_hours' },
    ]);
  });
});
