import { expect, test } from 'vitest';
import type { PriceBookSpec } from '../settings/custom-resources.generated.ts';
import type { WriteOutcome } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { CustomObject } from './controlled-kind.ts';
import { priceBooks } from './price-book.ts';
import { startedSettings } from './testing/settings.ts';

const NOW = Date.parse('2026-11-21T09:00:00Z');
const SIGNAL = new AbortController().signal;

function bookObject(
  amounts: Readonly<Record<string, string>>,
  uid = 'u1',
): CustomObject<PriceBookSpec> {
  const rates = Object.entries(amounts).map(([from, amount]) => ({ from, amount }));
  return {
    namespace: '',
    name: 'gold',
    uid,
    resourceVersion: '1',
    generation: 1,
    observedGeneration: 0,
    createdAt: 0,
    deleting: false,
    finalizers: [],
    conditions: [],
    spec: { currency: 'EUR', prices: [{ name: 'gpu', metric: 'tenant_gpu_hours', rates }] },
  };
}

/** The controller's part of a process that has just started on a ledger. */
function startedKind(ledger = createMemoryLedger()) {
  const settings = startedSettings();
  const state = {
    failure: undefined as WriteOutcome | undefined,
    metrics: ['tenant_gpu_hours'],
  };
  const kind = priceBooks({
    settings,
    records: {
      record: (key) => ledger.record(key),
      writeRecords: async (changes) => state.failure ?? ledger.writeRecords(changes),
    },
    clock: { now: () => NOW },
    knowsMetric: (code) => state.metrics.includes(code),
  });
  const act = async (amounts: Readonly<Record<string, string>>, uid?: string) =>
    (await kind.act(bookObject(amounts, uid), SIGNAL)).specStatus;
  const rates = () => settings.current().pricing.books[0]?.prices[0]?.rates.map(({ from }) => from);
  return { settings, kind, act, rates, ledger, state };
}

test('a price that has been in force is changed, and last month costs something else', async () => {
  const { act, rates } = startedKind();
  expect(await act({ '2026-01-01': '2' })).toStrictEqual({ kind: 'accepted' });
  expect(await act({ '2026-01-01': '3' })).toMatchObject({
    kind: 'invalid',
    reason: 'PastChanged',
    inForce: true,
    message: expect.stringContaining('other prices before 2026-11-22'),
  });
  expect(await act({ '2026-01-01': '2', '2026-11-21': '3' })).toMatchObject({ kind: 'invalid' });
  expect(rates()).toStrictEqual(['2026-01-01']);
  expect(await act({ '2026-01-01': '2', '2026-11-22': '3' })).toStrictEqual({ kind: 'accepted' });
  expect(rates()).toStrictEqual(['2026-01-01', '2026-11-22']);
});

test('a book that cannot be used takes the last good one away', async () => {
  const { act, rates } = startedKind();
  expect(await act({ '2026-01-01': 'two' })).toMatchObject({ kind: 'invalid', inForce: false });
  expect(rates()).toBeUndefined();
  await act({ '2026-01-01': '2' });
  expect(await act({ '2026-01-01': 'two' })).toMatchObject({ kind: 'invalid', inForce: true });
  expect(rates()).toStrictEqual(['2026-01-01']);
});

test('a restart forgets which prices have been in force, or takes them away', async () => {
  const before = startedKind();
  await before.act({ '2026-01-01': '2' });
  const changed = startedKind(before.ledger);
  expect(await changed.act({ '2026-01-01': '3' })).toMatchObject({
    reason: 'PastChanged',
    inForce: true,
  });
  expect(changed.rates()).toStrictEqual(['2026-01-01']);
  const broken = startedKind(before.ledger);
  expect(await broken.act({ '2026-01-01': 'two' })).toMatchObject({
    reason: 'InvalidSpec',
    inForce: true,
  });
  expect(broken.rates()).toStrictEqual(['2026-01-01']);
});

test('a book that was made again must keep the prices of the one before', async () => {
  const { act, ledger } = startedKind();
  await act({ '2026-01-01': '2' });
  expect(await act({ '2025-01-01': '3' }, 'u2')).toStrictEqual({ kind: 'accepted' });
  const { act: afterRestart, rates } = startedKind(ledger);
  expect(await afterRestart({ '2024-01-01': '4' }, 'u3')).toStrictEqual({ kind: 'accepted' });
  expect(rates()).toStrictEqual(['2024-01-01']);
});

test('a damaged record keeps the prices from coming into force', async () => {
  const ledger = createMemoryLedger();
  await ledger.writeRecords([{ key: 'costs/book/gold', value: '{"uid":"u1","spec":' }]);
  const { act, rates } = startedKind(ledger);
  expect(await act({ '2026-01-01': '2' })).toStrictEqual({ kind: 'accepted' });
  expect(rates()).toStrictEqual(['2026-01-01']);
});

test('a full volume keeps prices from coming into force, or from being kept later', async () => {
  const { kind, state, rates, ledger } = startedKind();
  state.failure = { kind: 'failed', cause: 'full', message: 'no room: ledger' };
  const object = bookObject({ '2026-01-01': '2' });
  expect(await kind.act(object, SIGNAL)).toStrictEqual({
    specStatus: { kind: 'accepted' },
    againMs: 30_000,
  });
  expect(rates()).toStrictEqual(['2026-01-01']);
  state.failure = undefined;
  expect(await kind.act(object, SIGNAL)).toStrictEqual({ specStatus: { kind: 'accepted' } });
  expect(await startedKind(ledger).act({ '2026-01-01': '3' })).toMatchObject({
    reason: 'PastChanged',
  });
});

test('prices stay when their book is gone', async () => {
  const { act, kind, settings } = startedKind();
  await act({ '2026-01-01': '2' });
  expect(await kind.remove('gold', SIGNAL)).toStrictEqual({ kind: 'removed' });
  expect(settings.current().pricing.books).toStrictEqual([]);
});

test('the status says what is in force and from when on it may be changed', async () => {
  const { act, kind } = startedKind();
  const object = bookObject({ '2026-01-01': '2' });
  expect(kind.report(object, { kind: 'waiting', message: 'm' }).fields).toStrictEqual({});
  const specStatus = await act({ '2026-01-01': '2' });
  expect(kind.report(object, specStatus)).toMatchObject({
    settled: true,
    claims: [{ type: 'Ready', status: 'True', reason: 'InForce' }],
    fields: { prices: 1, fixedBefore: '2026-11-22' },
  });
  const refused = await act({ '2026-01-01': '3' });
  expect(kind.report(object, refused).claims).toMatchObject([
    { type: 'Ready', status: 'False', reason: 'PastChanged' },
    { type: 'Stalled', status: 'True', reason: 'PastChanged' },
  ]);
});

test('a book that the operator refuses cannot be put right, since its day has begun', async () => {
  const { act, kind } = startedKind();
  await act({ '2026-01-01': '2' });
  const refused = await act({ '2026-01-01': '2', '2026-11-30': 'x' });
  expect(refused.kind).toBe('invalid');
  const { fields } = kind.report(bookObject({}), refused);
  expect(fields).toStrictEqual({ prices: 1, fixedBefore: undefined });
});

test('a price of a misspelled metric looks as if it had an effect', async () => {
  const { kind, act, state } = startedKind();
  await act({ '2026-01-01': '2' });
  const conditions = () =>
    kind.report(bookObject({ '2026-01-01': '2' }), { kind: 'accepted' }).claims;
  expect(conditions().map(({ type }) => type)).toStrictEqual(['Ready']);
  state.metrics = [];
  expect(conditions()).toMatchObject([
    { type: 'Ready', status: 'True' },
    {
      type: 'UnknownMetrics',
      reason: 'NotInCatalogue',
      message: expect.stringContaining('"tenant_gpu_hours" of price "gpu"'),
    },
  ]);
});
