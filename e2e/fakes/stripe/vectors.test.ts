import { afterEach, expect, test } from 'vitest';
import type { Account, AccountInvoice } from '../account.ts';
import { labelOf, play, type Step, summary, time, usage } from '../vectors.ts';
import type { StripeRules } from './state.ts';
import { type FakeStripe, startFakeStripe } from './stripe.ts';

/** A tenant on plan A since 1 January 2027; G costs 2 on A and 3 on B. */
interface Vector {
  readonly usage: string;
  readonly sku?: 'g' | 'h';
  readonly rules?: Partial<StripeRules>;
  readonly events?: readonly (readonly [at: string, act: (world: World) => Promise<unknown>])[];
  /** When the subscription is made, and its requested start. */
  readonly start?: readonly [at: string, from: string];
  /** True if invoices are named by their day, not by their month. */
  readonly isDated?: boolean;
  readonly bill: string;
}

interface World {
  readonly call: (
    method: string,
    path: string,
    fields?: Readonly<Record<string, string>>,
  ) => Promise<Answer>;
  readonly ids: Map<string, string>;
}

interface Answer {
  readonly id: string;
  readonly items: {
    readonly data: readonly { readonly id: string; readonly current_period_end: number }[];
  };
}

const UNTIL = time('Mar 05T00');
const made: FakeStripe[] = [];

afterEach(() => Promise.all(made.splice(0).map((one) => one.close())));

function idOf({ ids }: World, name: string): string {
  const id = ids.get(name);
  if (id === undefined) throw new Error(`no such object in this vector: "${name}"`);
  return id;
}

function subscribe(price: string, from?: string) {
  return async (world: World): Promise<void> => {
    const { id } = await world.call('POST', 'subscriptions', {
      customer: idOf(world, 'customer'),
      'items[0][price]': idOf(world, price),
      ...(from !== undefined && { backdate_start_date: String(time(from) / 1000) }),
    });
    world.ids.set('subscription', id);
  };
}

/** Replaces the price of the first item. */
function swap(price: string, fields: Readonly<Record<string, string>> = {}) {
  return async (world: World): Promise<void> => {
    const path = `subscriptions/${idOf(world, 'subscription')}`;
    const { items } = await world.call('GET', path);
    await world.call('POST', path, {
      'items[0][id]': items.data[0]?.id ?? '',
      'items[0][price]': idOf(world, price),
      ...fields,
    });
  };
}

function update(fields: Readonly<Record<string, string>>) {
  return (world: World) =>
    world.call('POST', `subscriptions/${idOf(world, 'subscription')}`, fields);
}

function cancel(query: string) {
  return (world: World) =>
    world.call('DELETE', `subscriptions/${idOf(world, 'subscription')}${query}`);
}

async function toBAtPeriodEnd(world: World): Promise<void> {
  const subscription = idOf(world, 'subscription');
  const { items } = await world.call('GET', `subscriptions/${subscription}`);
  const end = String(items.data[0]?.current_period_end);
  const { id } = await world.call('POST', 'subscription_schedules', {
    from_subscription: subscription,
  });
  world.ids.set('schedule', id);
  await world.call('POST', `subscription_schedules/${id}`, {
    'phases[0][items][0][price]': idOf(world, 'a'),
    'phases[0][start_date]': String(time('01T00') / 1000),
    'phases[0][end_date]': end,
    'phases[1][items][0][price]': idOf(world, 'b'),
    'phases[1][start_date]': end,
  });
}

const release = (world: World) =>
  world.call('POST', `subscription_schedules/${idOf(world, 'schedule')}/release`);
const addH = (world: World) => update({ 'items[0][price]': idOf(world, 'h5') })(world);
const atPeriodEnd = update({ cancel_at_period_end: 'true' });
const stay = update({ cancel_at_period_end: 'false' });

const SWAPPED = { usage: '05T00 10, 20T00 5' };
const OFFBOARDED = '05T00 10, 20T11 1';

const VECTORS: Readonly<Record<string, Vector>> = {
  '1 usage of a month is on its invoice': { usage: '05T00 10, 20T00 5', bill: 'Jan 30' },
  '2 the first moment of a month is of that month': {
    usage: '31T23:59 1, Feb 01T00:00 2',
    bill: 'Jan 2, Feb 4',
  },
  '3 a draft takes in what comes within its hour': {
    usage: '31T23 4 @Feb 01T00:30',
    bill: 'Jan 8',
  },
  '4 what comes three hours after the month is on no invoice': {
    usage: '31T23 4 @Feb 01T03:00',
    bill: 'never 4',
  },
  '5 nor what comes 30 hours after it': { usage: '31T23 4 @Feb 02T06:00', bill: 'never 4' },
  '6 a grace of 72 hours takes it in': {
    usage: '31T23 4 @Feb 02T06:00',
    rules: { graceSeconds: 72 * 3_600 },
    bill: 'Jan 8',
  },
  '7 create_prorations bills a swapped price with the month': {
    ...SWAPPED,
    events: [['16T10', swap('b', { proration_behavior: 'create_prorations' })]],
    bill: 'Jan 20+15',
  },
  '8 none drops what a swapped price had used': {
    ...SWAPPED,
    events: [['16T10', swap('b', { proration_behavior: 'none' })]],
    bill: 'Jan 15, never 10',
  },
  '9 always_invoice bills it at once; a swapped item has no grace at the end of the month': {
    usage: '05T00 10, 20T00 5, 31T23 1 @Feb 01T00:30',
    events: [['16T10', swap('b', { proration_behavior: 'always_invoice' })]],
    bill: '(16) 20, Jan 15, never 1',
  },
  ...Object.fromEntries(
    ['create_prorations', 'always_invoice', 'none'].map((proration_behavior) => [
      `10 in classic mode a swap drops what was used, with ${proration_behavior} too`,
      {
        ...SWAPPED,
        rules: { mode: 'classic' as const },
        events: [['16T10', swap('b', { proration_behavior })]] as const,
        bill: 'Jan 15, never 10',
      },
    ]),
  ),
  '10 in classic mode a new anchor bills it at the old price, and moves the billing day': {
    ...SWAPPED,
    rules: { mode: 'classic' },
    events: [['16T10', swap('b', { billing_cycle_anchor: 'now' })]],
    isDated: true,
    bill: '(16) 20, (Feb 16) 15',
  },
  '11 a window that is under way at a swap is on no invoice': {
    usage: '16T10:00:00 1 @16T10:01:30',
    events: [['16T10:00:30', swap('b')]],
    bill: 'never 1',
  },
  '12 what is stamped after a swap has the new price': {
    usage: '16T10:30 4',
    events: [['16T10:05', swap('b')]],
    bill: 'Jan 12',
  },
  '13 a schedule changes the price with the period': {
    usage: '05T00 15, Feb 01T00:05 1, Feb 02T00 3',
    events: [['16T00', toBAtPeriodEnd]],
    bill: 'Jan 30, Feb 12',
  },
  '14 a released schedule changes nothing': {
    usage: 'Feb 02T00 3',
    events: [
      ['16T00', toBAtPeriodEnd],
      ['20T00', release],
    ],
    bill: 'Feb 6',
  },
  '16 the month after a schedule has the new price from its first moment': {
    usage: 'Feb 01T00:00 2, Feb 01T01 3',
    events: [['16T00', toBAtPeriodEnd]],
    bill: 'Feb 15',
  },
  '17 a swap just after midnight leaves the month before alone': {
    usage: '05T00 15',
    events: [['Feb 01T00:05', swap('b')]],
    bill: 'Jan 30',
  },
  '18 an item that is added charges from then on only': {
    usage: '10T00 6, 20T00 4',
    sku: 'h',
    events: [['15T00', addH]],
    bill: 'Jan 20, never 6',
  },
  '19 a subscription of its own, backdated, charges the usage before it too': {
    usage: '10T00 6, 20T00 4',
    sku: 'h',
    events: [['15T00', subscribe('h5', '10T00')]],
    isDated: true,
    bill: '(Feb 10) 50',
  },
  '20 a new price has the usage after it, the old one what was before': {
    usage: '10T00 10, 20T00 5',
    events: [['15T00', swap('a2.5')]],
    bill: 'Jan 20+12.5',
  },
  '21 an end with the period is on the invoice of the period': {
    usage: OFFBOARDED,
    events: [['20T12', atPeriodEnd]],
    bill: 'Jan 22',
  },
  '22 an end at once discards what was not invoiced': {
    usage: OFFBOARDED,
    events: [['20T12', cancel('')]],
    bill: 'never 11',
  },
  '22 with invoice_now it is invoiced': {
    usage: OFFBOARDED,
    events: [['20T12', cancel('?invoice_now=true&prorate=true')]],
    bill: '(20) 22',
  },
  '23 a return within the period goes on with it': {
    usage: '05T00 10, 20T11 1, 26T00 3',
    events: [
      ['20T12', atPeriodEnd],
      ['25T00', stay],
    ],
    bill: 'Jan 28',
  },
  '24 so does one on the same day': {
    usage: '05T00 10, 20T11 1, 20T16 2',
    events: [
      ['20T12', atPeriodEnd],
      ['20T15', stay],
    ],
    bill: 'Jan 26',
  },
  '25 a backdated start is billed with its own period': {
    usage: '30T00 2 @Feb 03T11:00, Feb 02T00 5 @Feb 03T11:00',
    start: ['Feb 03T10', '30T00'],
    isDated: true,
    bill: '(Feb 28) 14',
  },
  '25 or never, if backdated usage belongs to the first invoice': {
    usage: '30T00 2 @Feb 03T11:00, Feb 02T00 5 @Feb 03T11:00',
    start: ['Feb 03T10', '30T00'],
    rules: { backdatedUsage: 'first-invoice' },
    bill: 'never 7',
  },
  'the last invoice of an end has grace': {
    usage: '31T23 4 @Feb 01T00:30',
    events: [['20T12', atPeriodEnd]],
    bill: 'Jan 8',
  },
  'or none, since the documentation is silent': {
    usage: '31T23 4 @Feb 01T00:30',
    rules: { finalInvoiceHasGrace: false },
    events: [['20T12', atPeriodEnd]],
    bill: 'never 4',
  },
  'invoice_now is enough for metered usage': {
    usage: OFFBOARDED,
    events: [['20T12', cancel('?invoice_now=true')]],
    bill: '(20) 22',
  },
  'or not, as the guide can be read': {
    usage: OFFBOARDED,
    rules: { cancelNeedsProrate: true },
    events: [['20T12', cancel('?invoice_now=true')]],
    bill: 'never 11',
  },
};

async function billed(vector: Vector): Promise<Account> {
  const stripe = await startFakeStripe({ apiKey: 'key', rules: vector.rules ?? {} });
  made.push(stripe);
  const call: World['call'] = async (method, path, fields) => {
    const response = await fetch(`${stripe.url}/v1/${path}`, {
      method,
      headers: { authorization: 'Bearer key' },
      ...(fields !== undefined && { body: new URLSearchParams(fields) }),
    });
    const answer = (await response.json()) as Answer;
    expect(response.status, JSON.stringify(answer)).toBe(200);
    return answer;
  };
  const world: World = { call, ids: new Map() };
  const [startedAt, from] = vector.start ?? ['01T00', undefined];
  const steps: Step[] = [
    { at: time('01T00'), run: () => setUp(world) },
    { at: time(startedAt), run: () => subscribe('a', from)(world) },
    ...(vector.events ?? []).map(([at, act]) => ({ at: time(at), run: () => act(world) })),
    ...usage(vector.usage).map(({ at, stamp, units }, index) => ({
      at,
      run: () => send(world, String(index), vector.sku ?? 'g', stamp, units),
    })),
  ];
  await play(steps, stripe.turnTo, UNTIL);
  return stripe.account();
}

async function setUp({ call, ids }: World): Promise<void> {
  const add = async (name: string, path: string, fields: Readonly<Record<string, string>>) => {
    ids.set(name, (await call('POST', path, fields)).id);
  };
  await add('customer', 'customers', { name: 'Acme' });
  for (const event_name of ['g', 'h']) {
    const formula = { 'default_aggregation[formula]': 'sum' };
    await add(event_name, 'billing/meters', { display_name: event_name, event_name, ...formula });
  }
  for (const [name, meter, cents] of [
    ['a', 'g', '200'],
    ['a2.5', 'g', '250'],
    ['b', 'g', '300'],
    ['h5', 'h', '500'],
  ] as const) {
    await add(name, 'prices', {
      currency: 'usd',
      unit_amount_decimal: cents,
      'product_data[name]': name,
      'recurring[interval]': 'month',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': ids.get(meter) ?? '',
    });
  }
}

function send(world: World, identifier: string, meter: string, stamp: number, value: string) {
  return world.call('POST', 'billing/meter_events', {
    event_name: meter,
    identifier,
    timestamp: String(stamp / 1000),
    'payload[stripe_customer_id]': idOf(world, 'customer'),
    'payload[value]': value,
  });
}

/** Names any invoice by its day. */
const dated = (invoice: AccountInvoice): string => labelOf({ ...invoice, kind: 'other' });

test.each(Object.entries(VECTORS))('vector %s', async (_name, vector) => {
  const account = await billed(vector);
  expect(summary(account, vector.isDated === true ? dated : labelOf)).toBe(vector.bill);
});

test('a repeat is refused for a day, and counts again after it', async () => {
  const again = usage('10T00 5, 10T00 5 @10T01:00, 10T00 5 @11T06:00');
  const stripe = await startFakeStripe({ apiKey: 'key' });
  made.push(stripe);
  const statuses: number[] = [];
  const ids = new Map<string, string>();
  const call: World['call'] = async (method, path, fields) => {
    const response = await fetch(`${stripe.url}/v1/${path}`, {
      method,
      headers: { authorization: 'Bearer key' },
      ...(fields !== undefined && { body: new URLSearchParams(fields) }),
    });
    if (path.endsWith('meter_events')) statuses.push(response.status);
    return (await response.json()) as Answer;
  };
  const world: World = { call, ids };
  const steps = again.map(({ at, stamp, units }) => ({
    at,
    run: () => send(world, 'once', 'g', stamp, units),
  }));
  const begin = async (): Promise<void> => {
    await setUp(world);
    await subscribe('a')(world);
  };
  await play([{ at: time('01T00'), run: begin }, ...steps], stripe.turnTo, time('Feb 02T00'));
  expect(statuses).toStrictEqual([200, 400, 200]);
  expect(summary(stripe.account())).toBe('Jan 20');
});
