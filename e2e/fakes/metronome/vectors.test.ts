import { afterEach, expect, test } from 'vitest';
import type { Account, AccountInvoice } from '../account.ts';
import { labelOf, play, type Step, summary, time, usage } from '../vectors.ts';
import { type FakeMetronome, startFakeMetronome } from './metronome.ts';
import type { MetronomeRules } from './state.ts';

/** A tenant on card A since 1 January 2027; G costs 2 on A and 3 on B. */
interface Vector {
  readonly usage: string;
  readonly sku?: 'g' | 'h';
  readonly rules?: Partial<MetronomeRules>;
  readonly events?: readonly (readonly [at: string, act: (world: World) => Promise<unknown>])[];
  /** When the contract is made, and its requested start. */
  readonly start?: readonly [at: string, from: string];
  readonly bill: string;
}

interface World {
  readonly call: (path: string, body: unknown) => Promise<string>;
  readonly ids: Map<string, string>;
}

const UNTIL = time('Mar 05T00');
const made: FakeMetronome[] = [];

afterEach(() => Promise.all(made.splice(0).map((one) => one.close())));

const iso = (text: string): string => new Date(time(text)).toISOString();

function sign(card: 'A' | 'B', from: string, name = card as string) {
  return async ({ call, ids }: World): Promise<void> => {
    const id = await call('/v1/contracts/create', {
      customer_id: ids.get('customer'),
      rate_card_id: ids.get(card),
      starting_at: iso(from),
      uniqueness_key: `${name} ${from}`,
    });
    ids.set(`contract ${name}`, id);
  };
}

/** Ends a contract, or removes its end. */
function end(name: string, at?: string) {
  return ({ call, ids }: World) =>
    call('/v1/contracts/updateEndDate', {
      customer_id: ids.get('customer'),
      contract_id: ids.get(`contract ${name}`),
      ...(at !== undefined && { ending_before: iso(at) }),
    });
}

/** Replaces the contract on one card with one on another, at a full hour. */
function toB(at: string) {
  return async (world: World): Promise<void> => {
    await end('A', at)(world);
    await sign('B', at)(world);
  };
}

async function backToA(world: World): Promise<void> {
  await world.call('/v1/contracts/archive', {
    customer_id: world.ids.get('customer'),
    contract_id: world.ids.get('contract B'),
  });
  await end('A')(world);
}

function archive(name: string) {
  return ({ call, ids }: World) =>
    call('/v1/contracts/archive', {
      customer_id: ids.get('customer'),
      contract_id: ids.get(`contract ${name}`),
      void_invoices: false,
    });
}

function rate(product: 'g' | 'h', cents: number, from: string) {
  return ({ call, ids }: World) =>
    call('/v1/contract-pricing/rate-cards/addRate', {
      rate_card_id: ids.get('A'),
      product_id: ids.get(product),
      starting_at: iso(from),
      entitled: true,
      rate_type: 'FLAT',
      price: cents,
    });
}

const OFFBOARDED = '05T00 10, 20T11 1';
const LATE_START = {
  usage: '30T00 2 @Feb 03T11:00, Feb 02T00 5 @Feb 03T11:00',
  start: ['Feb 03T10', '30T00'],
} as const;

const VECTORS: Readonly<Record<string, Vector>> = {
  '1 usage of a month is on its invoice': { usage: '05T00 10, 20T00 5', bill: 'Jan/A 30' },
  '2 the first moment of a month is of that month': {
    usage: '31T23:59 1, Feb 01T00:00 2',
    bill: 'Jan/A 2, Feb/A 4',
  },
  '3 a draft takes in what comes within its day': {
    usage: '31T23 4 @Feb 01T00:30',
    bill: 'Jan/A 8',
  },
  '4 three hours after the month too': { usage: '31T23 4 @Feb 01T03:00', bill: 'Jan/A 8' },
  '5 what comes 30 hours after the month is on no invoice': {
    usage: '31T23 4 @Feb 02T06:00',
    bill: 'never 4',
  },
  '6 the grace is that of the account': {
    usage: '31T23 4 @Feb 02T06:00',
    rules: { graceHours: 72 },
    bill: 'Jan/A 8',
  },
  '7 a change of contracts makes two invoices': {
    usage: '05T00 10, 20T00 5',
    events: [['16T10', toB('16T10')]],
    bill: 'Jan/A 20, Jan/B 15',
  },
  '9 the late hour of a month with a change is taken in': {
    usage: '05T00 10, 20T00 5, 31T23 1 @Feb 01T00:30',
    events: [['16T10', toB('16T10')]],
    bill: 'Jan/A 20, Jan/B 18',
  },
  '11 a window that is under way at a change is of the old contract': {
    usage: '16T10:00:00 1 @16T10:01:30',
    events: [['16T10:00:30', toB('16T11')]],
    bill: 'Jan/A 2',
  },
  '12 the old contract has all usage until the full hour': {
    usage: '16T10:30 4',
    events: [['16T10:05', toB('16T11')]],
    bill: 'Jan/A 8',
  },
  '13 a change with the month loses nothing': {
    usage: '05T00 15, Feb 01T00:05 1, Feb 02T00 3',
    events: [['16T00', toB('Feb 01T00')]],
    bill: 'Jan/A 30, Feb/B 12',
  },
  '14 it is undone by archiving the one and opening the other again': {
    usage: 'Feb 02T00 3',
    events: [
      ['16T00', toB('Feb 01T00')],
      ['20T00', backToA],
    ],
    bill: 'Feb/A 6',
  },
  '16 the month after a change has the new rates from its first moment': {
    usage: 'Feb 01T00:00 2, Feb 01T01 3',
    events: [['16T00', toB('Feb 01T00')]],
    bill: 'Feb/B 15',
  },
  '17 a change just after midnight leaves the month before alone': {
    usage: '05T00 15',
    events: [['Feb 01T00:05', toB('Feb 01T01')]],
    bill: 'Jan/A 30',
  },
  '18 a rate charges from its start on only': {
    usage: '10T00 6, 20T00 4',
    sku: 'h',
    events: [['15T00', rate('h', 500, '15T00')]],
    bill: 'Jan/A 20, never 6',
  },
  '18 a rate that starts in the past takes in the usage before it': {
    usage: '10T00 6, 20T00 4',
    sku: 'h',
    events: [['15T00', rate('h', 500, '01T00')]],
    bill: 'Jan/A 50',
  },
  '20 usage has the rate that was in force at its time': {
    usage: '10T00 10, 20T00 5',
    events: [['15T00', rate('g', 250, '15T00')]],
    bill: 'Jan/A 20+12.5',
  },
  '21 an end truncates the statement': {
    usage: OFFBOARDED,
    events: [['20T12', end('A', '20T12')]],
    bill: 'Jan/A 22',
  },
  '23 a return makes a second invoice': {
    usage: `${OFFBOARDED}, 26T00 3`,
    events: [
      ['20T12', end('A', '20T12')],
      ['25T00', sign('A', '25T00')],
    ],
    bill: 'Jan/A 22, Jan/A 6',
  },
  '24 one that begins at the old end bills nothing twice': {
    usage: `${OFFBOARDED}, 20T16 2`,
    events: [
      ['20T12', end('A', '20T12')],
      ['20T15', sign('A', '20T12')],
    ],
    bill: 'Jan/A 22, Jan/A 4',
  },
  '25 a start in an earlier month has no statement of it, if its grace was over': {
    ...LATE_START,
    bill: 'Feb/A 10, never 2',
  },
  '25 or has one, since the documentation is silent': {
    ...LATE_START,
    rules: { pastStatements: 'generated' },
    bill: 'Jan/A 4, Feb/A 10',
  },
};

const BY_HAND: Readonly<Record<string, Vector>> = {
  'a second contract bills the same usage once more': {
    usage: '05T00 10, 20T00 5',
    events: [['16T10', sign('B', '16T10')]],
    bill: 'Jan/A 30, Jan/B 15, twice 5',
  },
  'one with an earlier start has all of the month as well': {
    usage: '05T00 10, 20T00 5',
    events: [['16T10', sign('B', '01T00')]],
    bill: 'Jan/A 30, Jan/B 45, twice 15',
  },
  'what comes after an end by hand is on no invoice': {
    usage: '05T00 10, 20T00 5',
    events: [['16T10', end('A', '16T10')]],
    bill: 'Jan/A 20, never 5',
  },
  'an archived contract takes its draft along, and leaves what is final': {
    usage: '05T00 10, Feb 05T00 4, Feb 20T00 5',
    events: [['Feb 16T10', archive('A')]],
    bill: 'Jan/A 20, never 9',
  },
};

async function billed(vector: Vector): Promise<Account> {
  const metronome = await startFakeMetronome({ apiToken: 'token', rules: vector.rules ?? {} });
  made.push(metronome);
  const call: World['call'] = async (path, body) => {
    const response = await fetch(`${metronome.url}${path}`, {
      method: 'POST',
      headers: { authorization: 'Bearer token' },
      body: JSON.stringify(body),
    });
    const answer = await response.text();
    expect(response.status, answer).toBe(200);
    if (answer === '') return '';
    return (JSON.parse(answer) as { data: { id: string } }).data.id;
  };
  const world: World = { call, ids: new Map() };
  const [startedAt, from] = vector.start ?? ['01T00', '01T00'];
  const steps: Step[] = [
    { at: time('01T00'), run: () => setUp(world) },
    { at: time(startedAt), run: () => sign('A', from)(world) },
    ...(vector.events ?? []).map(([at, act]) => ({ at: time(at), run: () => act(world) })),
    ...usage(vector.usage).map(({ at, stamp, units }, index) => ({
      at,
      run: () => send(world, String(index), vector.sku ?? 'g', stamp, units),
    })),
  ];
  await play(steps, metronome.turnTo, UNTIL);
  return metronome.account();
}

async function setUp({ call, ids }: World): Promise<void> {
  for (const name of ['g', 'h']) {
    const billable_metric_id = await call('/v1/billable-metrics/create', {
      name,
      aggregation_type: 'SUM',
      aggregation_key: 'value',
      event_type_filter: { in_values: [name] },
      property_filters: [{ name: 'value', exists: true }],
    });
    const product = { name, type: 'USAGE', billable_metric_id };
    ids.set(name, await call('/v1/contract-pricing/products/create', product));
  }
  for (const [name, price] of [
    ['A', 200],
    ['B', 300],
  ] as const) {
    const id = await call('/v1/contract-pricing/rate-cards/create', { name });
    ids.set(name, id);
    await call('/v1/contract-pricing/rate-cards/addRate', {
      rate_card_id: id,
      product_id: ids.get('g'),
      starting_at: iso('01T00'),
      entitled: true,
      rate_type: 'FLAT',
      price,
    });
  }
  const customer = { name: 'Acme', ingest_aliases: ['acme'] };
  ids.set('customer', await call('/v1/customers', customer));
}

function send({ call }: World, id: string, type: string, stamp: number, value: string) {
  return call('/v1/ingest', [
    {
      transaction_id: id,
      customer_id: 'acme',
      event_type: type,
      timestamp: new Date(stamp).toISOString(),
      properties: { value },
    },
  ]);
}

/** The month and the card. */
const label = (invoice: AccountInvoice): string => `${labelOf(invoice)}/${invoice.of}`;

test.each(Object.entries(VECTORS))('vector %s', async (_name, vector) => {
  expect(summary(await billed(vector), label)).toBe(vector.bill);
});

test.each(Object.entries(BY_HAND))('by hand: %s', async (_name, vector) => {
  expect(summary(await billed(vector), label)).toBe(vector.bill);
});
