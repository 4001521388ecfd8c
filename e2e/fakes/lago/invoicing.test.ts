import * as fc from 'fast-check';
import { Client } from 'lago-javascript-client';
import { describe, expect, test } from 'vitest';
import type { Account } from '../account.ts';
import { expectAccountedFor } from '../testing/accounted.ts';
import { summary, time } from '../vectors.ts';
import { accountOf } from './account.ts';
import { createMetric } from './billable-metrics.ts';
import { upsertCustomer } from './customers.ts';
import { createEvent } from './events.ts';
import { runJobs } from './jobs.ts';
import { startFakeLago } from './lago.ts';
import { createPlan } from './plans.ts';
import { showInvoice } from './invoice-view.ts';
import { createLagoState, type LagoRules, type LagoState, type Plan } from './state.ts';
import { createSubscription, terminateSubscription } from './subscriptions.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START = time('01T00');

/** Returns a tenant on plan `a`, without HTTP: the engine takes the time as an argument. */
function estate(rules: Partial<LagoRules> = {}, customer: Record<string, unknown> = {}): LagoState {
  const state = createLagoState(rules);
  const metric = { name: 'g', code: 'g', aggregation_type: 'sum_agg', field_name: 'value' };
  createMetric(state, metric, START);
  const id = state.metrics.get('g')?.lago_id;
  for (const [code, fee] of [
    ['a', 10_000],
    ['b', 0],
    ['c', 20_000],
  ] as const) {
    createPlan(
      state,
      {
        name: code,
        code,
        interval: 'monthly',
        amount_cents: fee,
        amount_currency: 'USD',
        charges: [
          { billable_metric_id: id, charge_model: 'standard', properties: { amount: '2' } },
        ],
      },
      START,
    );
  }
  upsertCustomer(state, { external_id: 'acme', ...customer }, START);
  return state;
}

function subscribe(state: LagoState, plan: string, at: number, more: Record<string, unknown> = {}) {
  runJobs(state, at);
  const input = { external_customer_id: 'acme', external_id: 'sub', plan_code: plan, ...more };
  return createSubscription(state, input, at);
}

function terminate(state: LagoState, at: number, query = '') {
  runJobs(state, at);
  return terminateSubscription(state, 'sub', {
    method: 'DELETE',
    path: '',
    query: new URLSearchParams(query),
    headers: {},
    body: '',
    at,
  });
}

function send(state: LagoState, stamp: number, at: number, value: string, code = 'g') {
  runJobs(state, at);
  const event = {
    transaction_id: String(state.events.size),
    external_subscription_id: 'sub',
    code,
    timestamp: String(stamp / 1000),
    properties: { value },
  };
  return createEvent(state, event, at, { store: 'postgres', batchMax: 100 });
}

function accountAt(state: LagoState, at: number): Account {
  runJobs(state, at);
  return accountOf(state, at);
}

const chargesOnly = ({ invoices, events }: Account): Account => ({
  events,
  invoices: invoices.map((invoice) => ({
    ...invoice,
    lines: invoice.lines.filter((line) => line.events.length > 0),
  })),
});

describe('a period', () => {
  test('begins at midnight where the customer is', () => {
    const state = estate({}, { timezone: 'America/New_York' });
    subscribe(state, 'b', START + 6 * HOUR_MS);
    send(state, time('Feb 01T04:59:59'), time('Feb 01T05:00'), '1');
    send(state, time('Feb 01T05:00'), time('Feb 01T05:02'), '2');
    expect(summary(accountAt(state, time('Feb 01T05:09')))).toBe('open 3');
    expect(summary(accountAt(state, time('Feb 01T05:10')))).toBe('Jan 2, open 2');
    expect(summary(accountAt(state, time('Mar 02T00')))).toBe('Jan 2, Feb 4');
  });

  test('of an anniversary on the 31st ends with the last day of a shorter month', () => {
    const state = estate();
    subscribe(state, 'b', time('31T10'), { billing_time: 'anniversary' });
    send(state, time('Feb 27T23:59'), time('Feb 28T00'), '1');
    send(state, time('Feb 28T00'), time('Feb 28T00:01'), '2');
    const { invoices } = accountAt(state, time('Apr 01T00'));
    expect(invoices.map(({ madeAt }) => new Date(madeAt).toISOString())).toStrictEqual([
      '2027-02-28T00:10:00.000Z',
      '2027-03-31T00:10:00.000Z',
    ]);
    expect(invoices.map(({ lines }) => lines[0]?.units)).toStrictEqual(['1', '2']);
  });

  test('that began on another day is charged the days of the base fee that it had', () => {
    const state = estate();
    subscribe(state, 'a', time('17T10'));
    expect(summary(accountAt(state, time('Feb 02T00')))).toBe('Jan 48.38709677419354839');
  });
});

describe('an end', () => {
  test('on the billing day before its run bills the month before, and drops the hours of the day', () => {
    const state = estate();
    subscribe(state, 'b', START);
    send(state, time('05T00'), time('05T00:02'), '10');
    send(state, time('Feb 01T00:01'), time('Feb 01T00:02'), '1');
    terminate(state, time('Feb 01T00:05'));
    expect(summary(accountAt(state, time('Mar 05T00')))).toBe('Jan 20, never 1');
  });

  test('that is not to be invoiced leaves its time to a backdated successor', () => {
    const state = estate();
    subscribe(state, 'b', START);
    send(state, time('05T00'), time('05T00:02'), '10');
    terminate(state, time('20T12'), 'on_termination_invoice=skip');
    expect(summary(accountAt(state, time('20T12')))).toBe('never 10');
    subscribe(state, 'b', time('22T00'), { subscription_at: '2027-01-01T00:00:00Z' });
    expect(summary(accountAt(state, time('Feb 02T00')))).toBe('Jan 20');
  });

  test('on a given day comes five minutes after an hour of that day begins', () => {
    const state = estate();
    subscribe(state, 'b', START, { ending_at: '2027-01-20T12:00:00Z' });
    send(state, time('20T00:04'), time('20T00:04'), '1');
    send(state, time('20T00:06'), time('20T00:06'), '2');
    expect(summary(accountAt(state, time('Feb 02T00')))).toBe('(20) 2, never 2');
  });
});

test('a repeat is refused, however late it comes, and counts once', () => {
  const state = estate();
  subscribe(state, 'b', START);
  const repeat = (at: number) => {
    runJobs(state, at);
    const event = {
      transaction_id: 'once',
      external_subscription_id: 'sub',
      code: 'g',
      timestamp: String(time('10T00') / 1000),
      properties: { value: '5' },
    };
    return createEvent(state, event, at, { store: 'postgres', batchMax: 100 }).status;
  };
  const times = [time('10T00:02'), time('10T00:03'), time('11T06')];
  expect(times.map(repeat)).toStrictEqual([200, 422, 422]);
  expect(summary(accountAt(state, time('Feb 02T00')))).toBe('Jan 10');
});

test('a start in the future waits for it, and is followed by what came meanwhile', () => {
  const state = estate();
  subscribe(state, 'b', START, { subscription_at: '2027-01-10T00:00:00Z' });
  send(state, time('10T00:01'), time('10T00:01'), '1');
  expect(state.subscriptions).toMatchObject([
    { status: 'active', started_at: '2027-01-10T00:00:00.000Z' },
  ]);
  expect(summary(accountAt(state, time('Feb 02T00')))).toBe('Jan 2');
});

test('a start in the future is changed as it is, and not made twice', () => {
  const state = estate();
  const later = { subscription_at: '2027-01-10T00:00:00Z' };
  for (const plan of ['b', 'b', 'c']) subscribe(state, plan, START, later);
  expect(state.subscriptions).toMatchObject([{ status: 'pending', plan_code: 'c' }]);
});

test('a charge that is paid in advance is invoiced with each event, and never again', () => {
  const state = estate();
  const charge = state.plans.get('b')?.charges[0];
  if (charge === undefined) throw new Error('no charge');
  state.plans.get('b')?.charges.splice(0, 1, { ...charge, pay_in_advance: true });
  subscribe(state, 'b', START);
  send(state, time('05T00'), time('05T00:02'), '10');
  send(state, time('06T00'), time('07T00'), '1');
  expect(summary(accountAt(state, time('Feb 02T00')))).toBe('(5) 20, (7) 2');
});

describe('a plan with terms of its own', () => {
  /** Plan `b` costs 2 a unit and has no base fee. */
  function withTerms(terms: Partial<Plan>, chargeMinimum = 0, rules: Partial<LagoRules> = {}) {
    const state = estate(rules);
    const plan = state.plans.get('b');
    if (plan === undefined) throw new Error('no plan');
    const charges = plan.charges.map((charge) => ({ ...charge, min_amount_cents: chargeMinimum }));
    state.plans.set('b', { ...plan, charges, ...terms });
    return state;
  }
  const thresholds = { usage_thresholds: [{ amount_cents: 1_500, recurring: true }] } as const;

  test('has usage so far invoiced at its thresholds, whole each time, and credits it in the end', () => {
    const state = withTerms(thresholds, 0, { graceDays: 3 });
    subscribe(state, 'b', START);
    for (const day of ['05', '10', '20']) send(state, time(`${day}T00`), time(`${day}T00:02`), '5');
    expect(summary(accountAt(state, time('21T00')))).toBe('(10) 20, (20) 30, open 15');
    const [threshold] = state.invoices.map((one) => showInvoice(state, one));
    expect(threshold).toMatchObject({
      status: 'finalized',
      invoice_type: 'progressive_billing',
      billing_periods: [{ charges_to_datetime: '2027-01-31T23:59:59.999Z' }],
    });
    send(state, time('25T00'), time('25T00:02'), '2');
    const account = accountAt(state, time('Feb 05T00'));
    expect(summary(account)).toBe('(10) 20, (20) 30, Jan 34');
    // The invoices of thresholds are credited, so no usage is billed twice.
    expect(account.events.map(({ lines }) => lines)).toStrictEqual([1, 1, 1, 1]);
    expect(state.invoices.map((one) => showInvoice(state, one))).toMatchObject([
      { fees_amount_cents: 2_000, progressive_billing_credit_amount_cents: 0 },
      { fees_amount_cents: 3_000, progressive_billing_credit_amount_cents: 2_000 },
      {
        fees_amount_cents: 3_400,
        progressive_billing_credit_amount_cents: 3_000,
        total_amount_cents: 400,
      },
    ]);
  });

  test('has a fee of one unit for what a charge’s minimum adds, for the days that it was there', () => {
    const state = withTerms({}, 3_100);
    subscribe(state, 'b', time('17T00'));
    send(state, time('20T00'), time('20T00:02'), '5');
    expect(summary(accountAt(state, time('Feb 02T00')))).toBe('Jan 10+5');
    const [, trueUp] = state.invoices.flatMap((one) => showInvoice(state, one).fees);
    expect(trueUp).toMatchObject({
      item: { type: 'charge', code: 'g' },
      lago_true_up_parent_fee_id: state.invoices[0]?.fees[0]?.lago_id,
      units: '1',
      events_count: 0,
    });
  });

  test('has its minimum in a fee that is of no charge', () => {
    const state = withTerms({ minimum_commitment: { amount_cents: 5_000 } });
    subscribe(state, 'b', START);
    send(state, time('20T00'), time('20T00:02'), '5');
    expect(summary(accountAt(state, time('Feb 02T00')))).toBe('Jan 10+40');
    expect(state.invoices[0]?.fees.map(({ type }) => type)).toStrictEqual(['charge', 'commitment']);
  });
});

test('a wallet pays invoices until it is empty, and the fees stay what they are', () => {
  const state = estate({ walletCents: 1_500 });
  subscribe(state, 'b', START);
  send(state, time('20T00'), time('20T00:02'), '5');
  send(state, time('Feb 20T00'), time('Feb 20T00:02'), '5');
  expect(summary(accountAt(state, time('Mar 02T00')))).toBe('Jan 10, Feb 10');
  expect(state.invoices.map((one) => showInvoice(state, one))).toMatchObject([
    { fees_amount_cents: 1_000, prepaid_credit_amount_cents: 1_000, total_amount_cents: 0 },
    { fees_amount_cents: 1_000, prepaid_credit_amount_cents: 500, total_amount_cents: 500 },
  ]);
});

test('a draft shows what it had when it was made, until it is refreshed', async () => {
  const lago = await startFakeLago({ apiKey: 'key', rules: { graceDays: 3 } });
  try {
    const client = Client('key', { baseUrl: `${lago.url}/api/v1` });
    lago.turnTo(START);
    const { data } = await client.billableMetrics.createBillableMetric({
      billable_metric: {
        name: 'g',
        code: 'g',
        aggregation_type: 'sum_agg',
        field_name: 'value',
        recurring: false,
      },
    });
    await client.plans.createPlan({
      plan: {
        name: 'a',
        code: 'a',
        interval: 'monthly',
        amount_cents: 0,
        amount_currency: 'USD',
        pay_in_advance: false,
        charges: [
          {
            billable_metric_id: data.billable_metric.lago_id,
            charge_model: 'standard',
            properties: { amount: '2' },
          },
        ],
      },
    });
    await client.subscriptions.createSubscription({
      subscription: { external_customer_id: 'acme', external_id: 'sub', plan_code: 'a' },
    });
    const use = (id: string, at: number) =>
      client.events.createEvent({
        event: {
          transaction_id: id,
          external_subscription_id: 'sub',
          code: 'g',
          timestamp: at / 1000,
          properties: { value: '1.5' },
        },
      });
    lago.turnTo(time('31T23'));
    await use('1', time('05T00'));
    lago.turnTo(time('Feb 01T01'));
    await use('2', time('31T23'));
    const shown = async () => {
      const list = await client.invoices.findAllInvoices({ external_customer_id: 'acme' });
      const [invoice] = list.data.invoices;
      return [invoice?.status, invoice?.total_amount_cents, invoice?.lago_id ?? ''] as const;
    };
    const [, , id] = await shown();
    expect(await shown()).toStrictEqual(['draft', 300, id]);
    await client.invoices.refreshInvoice(id);
    expect(await shown()).toStrictEqual(['draft', 600, id]);
    lago.turnTo(time('Feb 04T00:20'));
    await use('3', time('31T22'));
    expect(await shown()).toStrictEqual(['finalized', 600, id]);
    const fees = await client.fees.findAllFees({ external_subscription_id: 'sub' });
    expect(fees.data.fees).toMatchObject([{ units: '3', events_count: 2, amount_cents: 600 }]);
    const past = await client.customers.findAllCustomerPastUsage('acme', {
      external_subscription_id: 'sub',
    });
    expect(past.data.usage_periods).toMatchObject([
      { lago_invoice_id: id, charges_usage: [{ units: '3' }] },
    ]);
    expect(summary(lago.account())).toBe('Jan 6, never 1.5');
    const [fee] = fees.data.fees;
    expect(fee).toMatchObject({ precise_unit_amount: '2', amount_details: {} });
    const credit = (amount_cents: number, credit_amount_cents = amount_cents) =>
      client.creditNotes.createCreditNote({
        credit_note: {
          invoice_id: id,
          description: 'late usage (late_1)',
          credit_amount_cents,
          items: [{ fee_id: fee?.lago_id ?? '', amount_cents }],
        },
      });
    await expect(credit(601)).rejects.toMatchObject({ status: 422 });
    await expect(credit(100, 90)).rejects.toMatchObject({ status: 422 });
    await credit(100);
    const notes = await client.creditNotes.findAllCreditNotes({ external_customer_id: 'acme' });
    expect(notes.data.credit_notes).toMatchObject([
      { description: 'late usage (late_1)', credit_amount_cents: 100 },
    ]);
    await client.addOns.createAddOn({
      add_on: { name: 'Late', code: 'late', amount_cents: 1, amount_currency: 'USD' },
    });
    expect((await client.addOns.findAddOn('late')).data.add_on.code).toBe('late');
    const oneOff = (unit_amount_cents: number) =>
      client.invoices.createInvoice({
        invoice: {
          external_customer_id: 'acme',
          currency: 'USD',
          fees: [{ add_on_code: 'late', unit_amount_cents, units: '1', description: 'late_2' }],
        },
      });
    await expect(oneOff(-5)).rejects.toMatchObject({ status: 422 });
    const { data: made } = await oneOff(5);
    expect(made.invoice).toMatchObject({ status: 'finalized', total_amount_cents: 5 });
    const oneOffs = await client.invoices.findAllInvoices({ invoice_type: 'one_off' });
    expect(oneOffs.data.invoices.map(({ lago_id }) => lago_id)).toStrictEqual([
      made.invoice.lago_id,
    ]);
    await client.invoices.voidInvoice(id);
    const { data: voided } = await client.invoices.findInvoice(id);
    expect(voided.invoice.status).toBe('voided');
  } finally {
    await lago.close();
  }
});

type Act =
  | { readonly kind: 'usage'; readonly late: number; readonly value: string; readonly code: string }
  | { readonly kind: 'plan'; readonly plan: string }
  | { readonly kind: 'end' | 'return' | 'call-off' };

const acts = fc.array(
  fc.tuple(
    fc.integer({ min: 0, max: 75 * 24 * 60 }),
    fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          kind: fc.constant('usage' as const),
          late: fc.oneof(
            fc.integer({ min: 0, max: 120 }),
            fc.integer({ min: 0, max: 40 * 24 * 60 }),
          ),
          value: fc.constantFrom('1', '0.25', '0.000000001', '7', 'x'),
          code: fc.constantFrom('g', 'g', 'g', 'unknown'),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant('plan' as const),
          plan: fc.constantFrom('a', 'b', 'c'),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constantFrom('end', 'return', 'call-off') }),
      },
    ) as fc.Arbitrary<Act>,
  ),
  { minLength: 1, maxLength: 40 },
);

/**
 * Usage is at full minutes, and changes are not: Lago counts the instant of a change in both
 * periods.
 */
const momentOf = (minute: number, { kind }: Act): number =>
  START + minute * 60_000 + (kind === 'usage' ? 0 : 30_000);

/** Plays three months of a tenant's life, at the given minutes. */
function live(state: LagoState, script: readonly (readonly [number, Act])[]): void {
  subscribe(state, 'a', START);
  let changedAt = START;
  const moments = script.map(([minute, act]) => [momentOf(minute, act), act] as const);
  for (const [at, act] of moments.toSorted(([a], [b]) => a - b)) {
    if (act.kind === 'usage') {
      send(state, at - act.late * 60_000, at, act.value, act.code);
      continue;
    }
    // Lago's behaviour for two changes in one instant is unknown.
    if (at === changedAt) continue;
    changedAt = at;
    if (act.kind === 'plan') subscribe(state, act.plan, at);
    else if (act.kind === 'return') subscribe(state, 'a', at);
    else terminate(state, at, act.kind === 'end' ? '' : 'status=pending');
  }
}

test.each([0, 3])(
  'with %i days of grace every accepted event is on one line, or is reported to be on none',
  (graceDays) => {
    fc.assert(
      fc.property(acts, (script) => {
        const state = estate({ graceDays });
        live(state, script);
        const end = START + 80 * DAY_MS;
        terminate(state, end);
        const account = chargesOnly(accountAt(state, end + 10 * DAY_MS));
        expectAccountedFor(account);
        expect(account.events).toHaveLength(state.events.size);
      }),
      { numRuns: 60 },
    );
  },
);
