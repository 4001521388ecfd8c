import { afterEach, expect, test } from 'vitest';
import { createLife, G, H, type Life } from './testing/life.ts';

let open: Life | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

/** A tenant that is subscribed to G, billed on the 1st. */
async function subscribed(): Promise<Life> {
  open = await createLife({}, { billingDay: 1 });
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
  'a subscription from which no money comes is told, and left alone: %s',
  async (_, state, told) => {
    const one = await subscribed();
    for (const subscription of one.stripe.state.subscriptions.values()) {
      Object.assign(subscription, state);
    }
    one.at('16T10');
    expect(await one.wish({ plan: 'gold' })).toStrictEqual({ kind: 'done' });
    const [id = ''] = one.stripe.state.subscriptions.keys();
    const [first] = one.destination.lateRefusals?.() ?? [];
    expect(first?.reason).toContain(`subscription ${id} of tenant "tenant-vcluster-a-a"`);
    expect(first?.reason).toContain(told);
    expect(one.posted('/v1/subscriptions')).toHaveLength(1);
    for (const subscription of one.stripe.state.subscriptions.values()) {
      Object.assign(subscription, { status: 'active', pauseCollection: undefined });
    }
    expect(await one.wish({ plan: 'gold' })).toMatchObject({ kind: 'drain' });
    expect(one.destination.lateRefusals?.()).toStrictEqual([]);
  },
);

test('usage without a price says how much is at stake, and until when a price still bills it', async () => {
  const one = await subscribed();
  one.at('10T00:02');
  await one.use('10T00', '6', H);
  one.at('10T00:20');
  await one.use('10T00:10', '1.5', H);
  expect(one.destination.unpriced?.()).toStrictEqual([
    {
      plan: 'tenant-standard',
      metric: H,
      atStake: '7.5',
      savedUntil: Date.UTC(2027, 1, 1),
    },
  ]);
});
