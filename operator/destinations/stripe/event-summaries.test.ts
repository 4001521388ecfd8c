import { afterEach, describe, expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import type { BucketEvent } from '../destination.ts';
import { testTenant } from '../testing/context.ts';
import { createStripeWorld, gpuEvent, NEVER, type StripeWorld } from './testing/stripe-world.ts';
import { whichMakeUp } from './event-summaries.ts';

const DAY_MS = 86_400_000;
let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

/**
 * Returns a Stripe that took `sent` two days ago, and another operator process that verifies
 * events.
 */
async function twoDaysLater(sent: readonly UsageEvent[]) {
  open = await createStripeWorld();
  await open.ready();
  await open.destination.send(sent, NEVER);
  open.time.now += 2 * DAY_MS;
  const later = open.restart();
  await later.bootstrap([], NEVER);
  return { ...open, later };
}

function openOnes(events: readonly UsageEvent[]): BucketEvent[] {
  return events.map((event) => ({ event, delivered: false }));
}

async function known(requested: readonly UsageEvent[], sent: number, sameBucket?: BucketEvent[]) {
  const { later } = await twoDaysLater(requested.slice(0, sent));
  const outcome = await later.verify?.(requested, NEVER, sameBucket ?? openOnes(requested));
  if (outcome?.kind !== 'verified') throw new Error(outcome?.reason);
  return {
    known: requested.map(({ id }) => outcome.known.has(id)),
    uncertain: outcome.uncertain?.size,
  };
}

describe('what Stripe has of events whose identifiers it has forgotten', () => {
  test('shows in the sum of their minute: those sent first are there', async () => {
    const nodes = ['0.016666667', '0.133333333', '0.016666667', '0.25'].map((quantity, index) =>
      gpuEvent({ quantity, resource_id: `node-${index}` }),
    );
    expect(await known(nodes, 2)).toStrictEqual({
      known: [true, true, false, false],
      uncertain: 0,
    });
  });

  test('is none where there is no meter or nothing was counted', async () => {
    expect(await known([gpuEvent({ sku: 'never seen' })], 0)).toMatchObject({ known: [false] });
  });

  test('leaves out what was delivered and passed before', async () => {
    const before = gpuEvent({ quantity: '0.5', resource_id: 'node-0' });
    const requested = [gpuEvent({ quantity: '0.5' }), gpuEvent({ quantity: '0.25' })];
    const { later } = await twoDaysLater([before, ...requested.slice(0, 1)]);
    const sameBucket = [{ event: before, delivered: true }, ...openOnes(requested)];
    expect(await later.verify?.(requested, NEVER, sameBucket)).toMatchObject({
      known: new Set([requested[0]?.id]),
    });
  });

  test('is not decided where the ledger may have lost others of the minute, unless nothing was counted', async () => {
    const other = gpuEvent({ quantity: '0.25', resource_id: 'node-1' });
    const requested = gpuEvent({ quantity: '0.25', resource_id: 'node-2' });
    const { later } = await twoDaysLater([other]);
    // The sum equals the quantity of the event to verify, although another event caused it.
    expect(await later.verify?.([requested], NEVER)).toMatchObject({
      known: new Set(),
      uncertain: new Map([[requested.id, expect.stringContaining('no longer in the ledger')]]),
    });
    const nothing = gpuEvent({ window_start: '2026-11-21T08:00:00Z' });
    expect(await later.verify?.([nothing], NEVER)).toMatchObject({
      known: new Set(),
      uncertain: new Map(),
    });
  });

  test('counts all windows of the minute, where windows are shorter', async () => {
    const windows = ['00', '10', '20'].map((second) =>
      gpuEvent({ quantity: '0.25', window_start: `2026-11-21T09:00:${second}Z` }),
    );
    expect(await known(windows, 2)).toStrictEqual({ known: [true, true, false], uncertain: 0 });
  });

  test('is not decided by the sum of a customer who pays for several tenants', async () => {
    const event = gpuEvent();
    const { stripe, later } = await twoDaysLater([event]);
    const [customer = ''] = stripe.state.customers.keys();
    for (const id of [testTenant().id, 'other']) {
      await later.customers.provision(testTenant({ id, customerIds: { stripe: customer } }), NEVER);
    }
    expect(await later.verify?.([event], NEVER, openOnes([event]))).toMatchObject({
      known: new Set(),
      uncertain: new Map([[event.id, 'its customer in Stripe pays for several tenants']]),
    });
    const from = Date.UTC(2026, 10, 21);
    const query = { tenant: testTenant(), metric: event.metric, from, to: from + DAY_MS };
    expect(await later.sums.total(query, NEVER)).toMatchObject({ kind: 'unsupported' });
  });

  test('is requested again while a sum lags behind, and uncertain after that: never sent blindly', async () => {
    const before = gpuEvent({ quantity: '5' });
    const requested = [gpuEvent({ quantity: '0.5' })];
    const { later } = await twoDaysLater([]);
    await later.customers.provision(testTenant(), NEVER);
    expect(await later.send([gpuEvent()], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
    const sameBucket = [{ event: before, delivered: true }, ...openOnes(requested)];
    const polls = [];
    for (let poll = 0; poll < 3; poll += 1) {
      polls.push(await later.verify?.(requested, NEVER, sameBucket));
    }
    expect(polls).toMatchObject([
      { kind: 'retry', afterMs: 600_000 },
      { kind: 'retry', afterMs: 600_000 },
      { kind: 'verified', uncertain: new Map([[requested[0]?.id, expect.any(String)]]) },
    ]);
  });
});

describe('the parts of a sum', () => {
  const parts = [1n, 2n, 4n, 4n].map((nanos, index) => ({ id: `${index}`, nanos: nanos * 1_000n }));

  test.each([
    [0n, []],
    [1_000n, ['0']],
    [3_000n, ['0', '1']],
    [11_000n, ['0', '1', '2', '3']],
    [6_000n, undefined],
    [2_000n, ['1']],
    [12_000n, undefined],
    [-500n, undefined],
  ])('that come to %d', (sum, ids) => {
    const found = whichMakeUp(sum, parts, 1n);
    expect(found && [...found]).toStrictEqual(ids);
  });
});
