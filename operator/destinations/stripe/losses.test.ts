import { afterEach, expect, test } from 'vitest';
import type { StripeRules } from '../../../e2e/fakes/stripe/state.ts';
import { testTenant } from '../testing/context.ts';
import { createLife, G, H, type StripeLife } from './testing/life.ts';
import { NEVER } from './testing/stripe-world.ts';

let open: StripeLife | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

/** Returns a tenant that is subscribed to G and billed on the 1st. */
async function subscribed(rules: Partial<StripeRules> = {}): Promise<StripeLife> {
  open = await createLife(rules, { billingDay: 1 });
  await open.price(G);
  await open.price(G, { plan: 'gold' });
  open.at('01T00:06');
  await open.wish({});
  await open.change();
  return open;
}

test.each([
  ['paused', { status: 'paused' }, 'is paused: no invoice is made'],
  ['unpaid', { status: 'unpaid' }, 'is unpaid: its invoices'],
  ['incomplete', { status: 'incomplete' }, 'is incomplete: its first payment is open'],
  ['pause_collection', { pauseCollection: 'void' }, 'its invoices are made void'],
])(
  'a subscription from which no money comes is reported, and left alone: %s',
  async (_, state, reported) => {
    const one = await subscribed();
    for (const subscription of one.stripe.state.subscriptions.values()) {
      Object.assign(subscription, state);
    }
    one.at('16T10');
    expect(await one.wish({ plan: 'gold' })).toStrictEqual({ kind: 'done' });
    const [id = ''] = one.stripe.state.subscriptions.keys();
    const [first] = one.destination.alerts.lateRefusals() ?? [];
    expect(first?.reason).toContain(`subscription ${id} of tenant "tenant-vcluster-a-a"`);
    expect(first?.reason).toContain(reported);
    expect(one.posted('/v1/subscriptions')).toHaveLength(1);
    for (const subscription of one.stripe.state.subscriptions.values()) {
      Object.assign(subscription, { status: 'active', pauseCollection: undefined });
    }
    expect(await one.wish({ plan: 'gold' })).toMatchObject({ kind: 'drain' });
    expect(one.destination.alerts.lateRefusals()).toStrictEqual([]);
  },
);

/** January has 10 units. Its draft is read, and then somebody changes it. */
async function drafted(rules: Partial<StripeRules> = {}) {
  const one = await subscribed(rules);
  one.at('05T00:02');
  await one.use('05T00', '10');
  one.at('Feb 01T00:10');
  const [draft] = one.stripe.state.invoices;
  if (draft === undefined) throw new Error('no draft');
  const reported = async (): Promise<readonly string[]> => {
    const query = { tenant: testTenant(), since: Date.UTC(2027, 1, 20) };
    const outcome = await one.destination.invoices.list(query, NEVER);
    if (outcome?.kind !== 'invoices') throw new Error(JSON.stringify(outcome));
    const isOpen = outcome.open.some(({ from }) => from === Date.UTC(2027, 0, 1));
    expect(isOpen).toBe(draft.status === 'draft');
    return (one.destination.alerts.lateRefusals() ?? []).map(({ reason }) => reason);
  };
  return { ...one, draft, reported };
}

test('a draft that nothing makes final is reported, for as long as it is one', async () => {
  const { at, draft, reported } = await drafted();
  expect(await reported()).toStrictEqual([]);
  draft.collects = false;
  const reason = `draft ${draft.id} of customer ${draft.customer} has auto_advance: false`;
  expect(await reported()).toStrictEqual([expect.stringContaining(reason)]);
  // Far after the invoices that are usually read.
  at('Mar 20T00');
  expect(await reported()).toStrictEqual([expect.stringContaining(reason)]);
  draft.status = 'open';
  expect(await reported()).toStrictEqual([]);
});

test('a draft that is older than four days is reported', async () => {
  const { at, draft, reported } = await drafted({ graceSeconds: 30 * 86_400 });
  at('Feb 05T00');
  expect(await reported()).toStrictEqual([]);
  at('Feb 05T00:01');
  expect(await reported()).toStrictEqual([
    expect.stringContaining(`draft ${draft.id} of customer ${draft.customer} is not final`),
  ]);
});

test('a draft of which no line charges usage is nobody’s business', async () => {
  const { destination, draft } = await drafted();
  draft.collects = false;
  draft.lines = draft.lines.map((line) => ({ ...line, price: null }));
  const query = { tenant: testTenant(), since: 0 };
  await destination.invoices.list(query, NEVER);
  expect(destination.alerts.lateRefusals()).toStrictEqual([]);
});

test('usage without a price says how much is at stake, and until when a price still bills it', async () => {
  const one = await subscribed();
  one.at('10T00:02');
  await one.use('10T00', '6', H);
  one.at('10T00:20');
  await one.use('10T00:10', '1.5', H);
  expect(one.destination.prices.unpriced()).toStrictEqual([
    {
      plan: 'tenant-standard',
      metric: H,
      atStake: '7.5',
      savedUntil: Date.UTC(2027, 1, 1),
    },
  ]);
});
