import { afterEach, expect, test } from 'vitest';
import type { Account } from '../account.ts';
import { play, type Step, summary, time, usage } from '../vectors.ts';
import { type FakeLago, startFakeLago } from './lago.ts';
import type { LagoRules } from './state.ts';

/**
 * A tenant on plan A since 1 January 2027. G costs 2 on A and 3 on B; the base fee of both is 0.
 */
interface Vector {
  readonly usage: string;
  readonly sku?: string;
  readonly rules?: Partial<LagoRules>;
  /** In cents, of A and B. */
  readonly baseFees?: readonly [number, number];
  readonly events?: readonly (readonly [at: string, act: (world: World) => Promise<unknown>])[];
  /** When the subscription is made, and its requested start. */
  readonly start?: readonly [at: string, from: string];
  readonly bill: string;
}

interface World {
  readonly call: (method: string, path: string, body?: unknown) => Promise<unknown>;
  readonly metrics: Map<string, string>;
}

const [G, H] = ['g', 'h'];
const UNTIL = time('Mar 05T00');
const made: FakeLago[] = [];

afterEach(() => Promise.all(made.splice(0).map((one) => one.close())));

function subscribe(plan: string, from?: string) {
  return ({ call }: World) =>
    call('POST', 'subscriptions', {
      subscription: {
        external_customer_id: 'acme',
        external_id: 'sub',
        plan_code: plan,
        ...(from !== undefined && { subscription_at: new Date(time(from)).toISOString() }),
      },
    });
}

const toB = subscribe('b');
const backToA = subscribe('a');
const end = ({ call }: World) => call('DELETE', 'subscriptions/sub');
const callOff = ({ call }: World) => call('DELETE', 'subscriptions/sub?status=pending');

function priceH({ call, metrics }: World) {
  const charge = {
    billable_metric_id: metrics.get(H),
    charge_model: 'standard',
    code: H,
    properties: { amount: '5' },
  };
  return call('POST', 'plans/a/charges', { charge });
}

async function editPriceOfG({ call }: World) {
  const { plan } = (await call('GET', 'plans/a')) as { plan: { charges: { lago_id: string }[] } };
  const charges = plan.charges.map(({ lago_id: id }) => ({ id, properties: { amount: '2.5' } }));
  return call('PUT', 'plans/a', { plan: { charges } });
}

const VECTORS: Readonly<Record<string, Vector>> = {
  '1 usage of a month is on its invoice': { usage: '05T00 10, 20T00 5', bill: 'Jan 30' },
  '2 the first moment of a month is of that month': {
    usage: '31T23:59 1, Feb 01T00:00 2',
    bill: 'Jan 2, Feb 4',
  },
  '3 what comes 30 minutes after the month, without grace, is on no invoice': {
    usage: '31T23 4 @Feb 01T00:30',
    bill: 'never 4',
  },
  '4 nor what comes three hours after it': { usage: '31T23 4 @Feb 01T03:00', bill: 'never 4' },
  '5 nor what comes 30 hours after it': { usage: '31T23 4 @Feb 02T06:00', bill: 'never 4' },
  '6 a grace of three days takes it in': {
    usage: '31T23 4 @Feb 02T06:00',
    rules: { graceDays: 3 },
    bill: 'Jan 8',
  },
  '7 an equal base fee changes the plan at once, with an invoice': {
    usage: '05T00 10, 20T00 5',
    events: [['16T10', toB]],
    bill: '(16) 20, Jan 15',
  },
  '9 the late hour of a month with a change is lost as any other': {
    usage: '05T00 10, 20T00 5, 31T23 1 @Feb 01T00:30',
    events: [['16T10', toB]],
    bill: '(16) 20, Jan 15, never 1',
  },
  '11 a window that is under way at a change is on no invoice': {
    usage: '16T10:00:00 1 @16T10:01:30',
    events: [['16T10:00:30', toB]],
    bill: 'never 1',
  },
  '11 with grace it is on the draft of the old plan': {
    usage: '16T10:00:00 1 @16T10:01:30',
    rules: { graceDays: 3 },
    events: [['16T10:00:30', toB]],
    bill: '(16) 2',
  },
  '12 what is stamped after a change has the new price': {
    usage: '16T10:30 4',
    events: [['16T10:05', toB]],
    bill: 'Jan 12',
  },
  '13 a lower base fee waits for the billing run, and the minutes before it are lost': {
    usage: '05T00 15, Feb 01T00:05 1, Feb 02T00 3',
    baseFees: [10_000, 0],
    events: [['16T00', toB]],
    bill: 'Jan 100+30, Feb 9, never 1',
  },
  '14 a request for the current plan does not cancel the waiting one': {
    usage: 'Feb 02T00 3',
    baseFees: [10_000, 0],
    events: [
      ['16T00', toB],
      ['20T00', backToA],
    ],
    bill: 'Jan 100, Feb 9',
  },
  '15 only the deletion of what is pending does': {
    usage: 'Feb 02T00 3',
    baseFees: [10_000, 0],
    events: [
      ['16T00', toB],
      ['20T00', callOff],
    ],
    bill: 'Jan 100, Feb 100+6',
  },
  '16 a change after the run of the billing day leaves the month before alone': {
    usage: 'Feb 01T00:00 2, Feb 01T01:00 3',
    events: [['Feb 01T00:30', toB]],
    bill: '(Feb 1) 4, Feb 9',
  },
  '17 a change before the run of the billing day loses the whole month before': {
    usage: '05T00 15',
    events: [['Feb 01T00:05', toB]],
    bill: 'never 15',
  },
  '18 a charge that comes late prices the whole month': {
    usage: '10T00 6, 20T00 4',
    sku: H,
    events: [['15T00', priceH]],
    bill: 'Jan 50',
  },
  '20 an edited price applies to the complete month': {
    usage: '10T00 10, 20T00 5',
    events: [['15T00', editPriceOfG]],
    bill: 'Jan 37.5',
  },
  '21 an end is invoiced at once': {
    usage: '05T00 10, 20T11 1',
    events: [['20T12', end]],
    bill: '(20) 22',
  },
  '23 a return begins where the invoice of the end stopped': {
    usage: '05T00 10, 20T11 1, 26T00 3',
    events: [
      ['20T12', end],
      ['25T00', subscribe('a', '18T00')],
    ],
    bill: '(20) 22, Jan 6',
  },
  '24 a return on the day of the end is billed from before it, twice': {
    usage: '05T00 10, 20T11 1, 20T16 2',
    events: [
      ['20T12', end],
      ['20T15', subscribe('a', '20T09')],
    ],
    bill: '(20) 22, Jan 6, twice 1',
  },
  '25 a start in an earlier month is never invoiced for that month': {
    usage: '30T00 2 @Feb 03T11:00, Feb 02T00 5 @Feb 03T11:00',
    start: ['Feb 03T10', '30T00'],
    bill: 'Feb 10, never 2',
  },
};

async function billed(vector: Vector): Promise<Account> {
  const lago = await startFakeLago({ apiKey: 'key', rules: vector.rules ?? {} });
  made.push(lago);
  const metrics = new Map<string, string>();
  const call: World['call'] = async (method, path, body) => {
    const response = await fetch(`${lago.url}/api/v1/${path}`, {
      method,
      headers: { authorization: 'Bearer key' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const answer: unknown = await response.json();
    expect(response.status, JSON.stringify(answer)).toBe(200);
    return answer;
  };
  const world: World = { call, metrics };
  const [startedAt, from] = vector.start ?? ['01T00', '01T00'];
  const steps: Step[] = [
    { at: time('01T00'), run: () => setUp(world, vector.baseFees ?? [0, 0]) },
    { at: time(startedAt), run: () => subscribe('a', from)(world) },
    ...(vector.events ?? []).map(([at, act]) => ({ at: time(at), run: () => act(world) })),
    ...usage(vector.usage).map(({ at, stamp, units }, index) => ({
      at,
      run: () => send(world, String(index), vector.sku ?? G, stamp, units),
    })),
  ];
  await play(steps, lago.turnTo, UNTIL);
  return lago.account();
}

async function setUp({ call, metrics }: World, [feeA, feeB]: readonly [number, number]) {
  for (const code of [G, H]) {
    const billable_metric = { name: code, code, aggregation_type: 'sum_agg', field_name: 'value' };
    const answer = (await call('POST', 'billable_metrics', { billable_metric })) as {
      billable_metric: { lago_id: string };
    };
    metrics.set(code, answer.billable_metric.lago_id);
  }
  for (const [code, amount, fee] of [
    ['a', '2', feeA],
    ['b', '3', feeB],
  ] as const) {
    const plan = {
      name: code,
      code,
      interval: 'monthly',
      amount_cents: fee,
      amount_currency: 'USD',
      charges: [
        {
          billable_metric_id: metrics.get(G),
          charge_model: 'standard',
          properties: { amount },
        },
      ],
    };
    await call('POST', 'plans', { plan });
  }
  await call('POST', 'customers', { customer: { external_id: 'acme' } });
}

function send({ call }: World, id: string, code: string, stamp: number, units: string) {
  return call('POST', 'events', {
    event: {
      transaction_id: id,
      external_subscription_id: 'sub',
      code,
      timestamp: stamp / 1000,
      properties: { value: units },
    },
  });
}

test.each(Object.entries(VECTORS))('vector %s', async (_name, vector) => {
  expect(summary(await billed(vector))).toBe(vector.bill);
});
