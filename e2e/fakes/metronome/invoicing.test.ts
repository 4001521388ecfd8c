import Metronome from '@metronome/sdk';
import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { FakeRequest } from '../fake-server.ts';
import { expectAccountedFor } from '../testing/accounted.ts';
import { summary, time } from '../vectors.ts';
import { accountOf } from './account.ts';
import { createContract, editContract, setContractEnd } from './contracts.ts';
import { createCustomer } from './customers.ts';
import { ingest } from './ingest.ts';
import { listInvoices } from './invoice-routes.ts';
import { createMetric } from './metrics.ts';
import { type FakeMetronome, startFakeMetronome } from './metronome.ts';
import { addRates, createProduct, createRateCard } from './pricing.ts';
import { createMetronomeState, type MetronomeRules, type MetronomeState } from './state.ts';
import { runUntil } from './statements.ts';
import { listUsage } from './usage.ts';

const START = time('01T00');
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
let metronome: FakeMetronome;

beforeEach(async () => {
  metronome = await startFakeMetronome({ apiToken: 'token' });
});
afterEach(() => metronome.close());

const iso = (at: number): string => new Date(at).toISOString();

/**
 * Returns a customer, a metric and two cards, without HTTP: the engine takes the time as an
 * argument.
 */
function estate(state: MetronomeState = createMetronomeState()): MetronomeState {
  createMetric(
    state,
    {
      name: 'g',
      aggregation_type: 'SUM',
      aggregation_key: 'value',
      event_type_filter: { in_values: ['g'] },
      property_filters: [{ name: 'value', exists: true }],
    },
    START,
  );
  createProduct(state, { name: 'g', billable_metric_id: state.metrics[0]?.id }, START);
  for (const [name, price, from] of [
    ['A', 200, START],
    ['B', 0.5, START + 10 * DAY_MS],
  ] as const) {
    createRateCard(state, { name }, START);
    const rate = { product_id: state.products[0]?.id, starting_at: iso(from), entitled: true };
    addRates(state, state.rateCards.at(-1)?.id, [{ ...rate, price }]);
  }
  createCustomer(state, { name: 'Acme', ingest_aliases: ['acme'] }, START);
  return state;
}

function sign(state: MetronomeState, card: number, from: number, at: number, more = {}) {
  const input = {
    customer_id: state.customers[0]?.id,
    rate_card_id: state.rateCards[card]?.id,
    starting_at: iso(from),
    ...more,
  };
  return createContract(state, input, at);
}

function use(state: MetronomeState, stamp: number, at: number, value: string, type = 'g') {
  const event = {
    transaction_id: String(state.events.length),
    customer_id: 'acme',
    event_type: type,
    timestamp: iso(stamp),
    properties: { value },
  };
  return ingest(state, [event], at);
}

test('statements of an anniversary begin on the contract’s day', () => {
  const state = estate();
  const schedule = { frequency: 'MONTHLY', day: 'CONTRACT_START' };
  sign(state, 0, time('16T10'), time('16T10'), { usage_statement_schedule: schedule });
  use(state, time('Feb 16T09:59'), time('Feb 16T10'), '1');
  use(state, time('Feb 16T10'), time('Feb 16T10'), '2');
  runUntil(state, time('Feb 17T10'));
  expect(state.invoices.map(({ from, to }) => [from, to])).toStrictEqual([
    [time('16T10'), time('Feb 16T10')],
  ]);
  expect(summary(accountOf(state, time('Feb 18T00')))).toBe('Jan 2, draft Feb 4, open 2');
});

test('an end before a final invoice leaves that as it is, and is refused where that is requested', () => {
  const state = estate();
  sign(state, 0, START, START);
  use(state, time('25T00'), time('25T00:02'), '3');
  runUntil(state, time('Feb 03T00'));
  const [contract] = state.contracts;
  const input = { customer_id: contract?.customer_id, contract_id: contract?.id };
  const end = { ...input, ending_before: iso(time('20T00')) };
  const guarded = { ...end, allow_ending_before_finalized_invoice: false };
  expect(setContractEnd(state, guarded).status).toBe(400);
  expect(setContractEnd(state, end).status).toBe(200);
  expect(summary(accountOf(state, time('Feb 03T00')))).toBe('Jan 6');
});

test('a commit and a credit are lines beside those of the usage, with its product and quantity', async () => {
  const state = estate();
  const from = { schedule_items: [{ amount: 250, starting_at: iso(START) }] };
  sign(state, 0, START, START, { commits: [{ access_schedule: from }] });
  const [contract] = state.contracts;
  const input = { customer_id: contract?.customer_id, contract_id: contract?.id };
  const more = { schedule_items: [{ amount: 1_000, starting_at: iso(time('02T00')) }] };
  expect(
    editContract(state, { ...input, add_credits: [{ access_schedule: more }] }, START).status,
  ).toBe(200);
  use(state, time('05T00'), time('05T00:02'), '3');
  use(state, time('Feb 05T00'), time('Feb 05T00:02'), '4');
  runUntil(state, time('Mar 03T00'));
  const request = { query: new URLSearchParams(), at: time('Mar 03T00') } as FakeRequest;
  const { body } = listInvoices(state, contract?.customer_id ?? '', request);
  const { data } = body as {
    data: readonly { type: string; total: number; line_items: unknown }[];
  };
  const usage = data.filter(({ type }) => type === 'USAGE');
  expect(data.filter(({ type }) => type === 'SCHEDULED')).toMatchObject([{ total: 250 }]);
  expect(usage.slice(0, 2)).toMatchObject([
    {
      total: 0,
      line_items: [
        { type: 'usage', quantity: 3, total: 600 },
        { type: 'applied_commit_or_credit', quantity: 3, total: -250 },
        { type: 'applied_commit_or_credit', quantity: 3, total: -350 },
      ],
    },
    {
      total: 150,
      line_items: [
        { type: 'usage', quantity: 4, total: 800 },
        { type: 'applied_commit_or_credit', quantity: 4, total: -650 },
      ],
    },
  ]);
});

test('calls beyond the limit of their minute are refused, those of another customer are not', async () => {
  const limited = await startFakeMetronome({ apiToken: 'token', rules: { callsPerMinute: 2 } });
  try {
    limited.turnTo(START);
    const list = async (customer_id: string): Promise<number> => {
      const answer = await fetch(`${limited.url}/v2/contracts/list`, {
        method: 'POST',
        headers: { authorization: 'Bearer token' },
        body: JSON.stringify({ customer_id }),
      });
      return answer.status;
    };
    expect([await list('a'), await list('a'), await list('a'), await list('b')]).toEqual([
      400, 400, 429, 400,
    ]);
    limited.turnTo(START + MINUTE_MS);
    expect(await list('a')).toBe(400);
  } finally {
    await limited.close();
  }
});

test('sums lack what was taken within their lag', () => {
  const state = estate(createMetronomeState({ sumsLagSeconds: 600 }));
  use(state, time('05T00'), time('05T00:02'), '3');
  const input = {
    starting_on: iso(time('05T00')),
    ending_before: iso(time('06T00')),
    window_size: 'NONE',
  };
  const sumAt = (at: number): unknown => {
    const request = { query: new URLSearchParams(), at } as FakeRequest;
    const { body } = listUsage(state, input, request);
    return (body as { data: readonly { value: unknown }[] }).data[0]?.value;
  };
  expect([sumAt(time('05T00:11')), sumAt(time('05T00:12'))]).toEqual([null, 3]);
});

test('two contracts at a time bill the same usage twice', () => {
  const state = estate();
  sign(state, 0, START, START);
  sign(state, 0, START, START);
  use(state, time('05T00'), time('05T00:02'), '3');
  runUntil(state, time('Feb 03T00'));
  expect(summary(accountOf(state, time('Feb 03T00')))).toBe('Jan 6, Jan 6, twice 3');
});

test('the vendor’s own SDK sees the loss between an invoice and its breakdown, and mends it', async () => {
  const client = new Metronome({
    bearerToken: 'token',
    baseURL: metronome.url,
    maxRetries: 0,
    logLevel: 'off',
  });
  metronome.turnTo(START);
  estate(metronome.state);
  const customer = metronome.state.customers[0]?.id ?? '';
  await client.v1.contracts.create({
    customer_id: customer,
    rate_card_id: metronome.state.rateCards[0]?.id ?? '',
    starting_at: iso(START),
  });
  const send = (id: string, stamp: number) =>
    client.v1.usage.ingest({
      usage: [
        {
          transaction_id: id,
          customer_id: 'acme',
          event_type: 'g',
          timestamp: iso(stamp),
          properties: { value: '1.5' },
        },
      ],
    });
  metronome.turnTo(time('05T00:01'));
  await send('1', time('05T00'));
  const list = async (status: string) => {
    const { data } = await client.v1.customers.invoices.list({ customer_id: customer, status });
    return data.map(({ id, total }) => ({ id, total }));
  };
  const [draft] = await list('DRAFT');
  expect(draft?.total).toBe(300);
  metronome.turnTo(time('Feb 02T00'));
  await send('2', time('05T12'));
  expect(await list('FINALIZED')).toStrictEqual([draft]);
  const { data } = await client.v1.customers.invoices.listBreakdowns({
    customer_id: customer,
    starting_on: iso(time('05T00')),
    ending_before: iso(time('06T00')),
    window_size: 'DAY',
    status: 'FINALIZED',
  });
  expect(data.map(({ total }) => total)).toStrictEqual([600]);
  expect(summary(metronome.account())).toBe('Jan 3, never 1.5');
  await client.v1.invoices.void({ id: draft?.id ?? '' });
  await client.v1.invoices.regenerate({ id: draft?.id ?? '' });
  expect(await list('VOID')).toStrictEqual([draft]);
  const [again] = await list('FINALIZED');
  expect(again).toMatchObject({ total: 600 });
  const shown = await client.v1.customers.invoices.retrieve({
    customer_id: customer,
    invoice_id: again?.id ?? '',
  });
  expect(shown.data.line_items).toMatchObject([{ quantity: 3, total: 600 }]);
  expect(metronome.account().events.map(({ lines }) => lines)).toStrictEqual([1, 1]);
});

type Act =
  | { readonly kind: 'usage'; readonly late: number; readonly value: string; readonly type: string }
  | { readonly kind: 'change' | 'end' | 'reopen' | 'return'; readonly card: number };

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('usage' as const),
      late: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 33 * 24 * 60 })),
      value: fc.constantFrom('1', '0.25', '0.000000001', '7'),
      type: fc.constantFrom('g', 'g', 'g', 'unknown'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'change' as const,
        'end' as const,
        'reopen' as const,
        'return' as const,
      ),
      card: fc.integer({ min: 0, max: 1 }),
    }),
  },
);

/** Keeps one contract at a time: the next begins where the last one ends. */
function perform(state: MetronomeState, what: Act, at: number): void {
  runUntil(state, at);
  if (what.kind === 'usage') {
    use(state, at - what.late * MINUTE_MS, at, what.value, what.type);
    return;
  }
  const last = state.contracts.at(-1);
  const hour = Math.ceil((at + 1) / HOUR_MS) * HOUR_MS;
  const input = { customer_id: last?.customer_id, contract_id: last?.id };
  const isEnded = last?.ending_before !== undefined;
  if (what.kind === 'reopen') setContractEnd(state, input);
  else if (what.kind === 'return') {
    if (isEnded) sign(state, what.card, Math.max(hour, Date.parse(last.ending_before ?? '')), at);
  } else if (!isEnded) {
    const ended = setContractEnd(state, { ...input, ending_before: iso(hour) });
    if (what.kind === 'change' && ended.status === 200) sign(state, what.card, hour, at);
  }
}

test.each<Partial<MetronomeRules>>([
  {},
  { graceHours: 0 },
  { graceHours: 72, pastStatements: 'generated' },
])('with %j every accepted event is on one line, or is reported to be on none', (rules) => {
  const script = fc.array(fc.tuple(fc.integer({ min: 0, max: 75 * 24 * 60 }), act), {
    minLength: 1,
    maxLength: 40,
  });
  fc.assert(
    fc.property(script, (acts) => {
      const state = estate(createMetronomeState(rules));
      sign(state, 0, START, START);
      for (const [minute, what] of acts.toSorted(([a], [b]) => a - b)) {
        perform(state, what, START + minute * MINUTE_MS);
      }
      const end = START + 80 * DAY_MS;
      perform(state, { kind: 'end', card: 0 }, end);
      runUntil(state, end + 10 * DAY_MS);
      const account = accountOf(state, end + 10 * DAY_MS);
      expectAccountedFor(account);
    }),
    { numRuns: 100 },
  );
});
