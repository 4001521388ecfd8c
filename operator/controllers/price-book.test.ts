import { expect, test } from 'vitest';
import type { PriceBookSpec } from '../config/custom-resources.generated.ts';
import type { CustomObject } from './controlled-kind.ts';
import { priceBooks } from './price-book.ts';
import { startedSettings } from './testing/settings.ts';

const NOW = Date.parse('2026-11-21T09:00:00Z');
const SIGNAL = new AbortController().signal;

function bookObject(amounts: Readonly<Record<string, string>>): CustomObject<PriceBookSpec> {
  const rates = Object.entries(amounts).map(([from, amount]) => ({ from, amount }));
  return {
    namespace: '',
    name: 'gold',
    uid: 'u1',
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

function startedKind() {
  const settings = startedSettings();
  const kind = priceBooks({ settings, clock: { now: () => NOW } });
  const act = async (amounts: Readonly<Record<string, string>>) =>
    (await kind.act(bookObject(amounts), SIGNAL)).specStatus;
  const rates = () => settings.current().pricing.books[0]?.prices[0]?.rates.map(({ from }) => from);
  return { settings, kind, act, rates };
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
