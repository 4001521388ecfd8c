import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { filterOf } from '../../../e2e/fakes/lago/fees.ts';
import type { Charge, ChargeFilter } from '../../../e2e/fakes/lago/state.ts';
import type { Price, PriceBook } from '../../model/price-book.ts';
import { amountText, parseAmount } from '../../model/pricing/amount.ts';
import { pricesOn } from '../../model/pricing/compare.ts';
import { PriceFinder } from '../../model/pricing/find-price.ts';
import { flat, matches, untiedPrices } from '../../model/pricing/testing/price-books.ts';
import { bookFor, TODAY } from '../testing/price-books.ts';
import { pricesAtLago } from './prices.ts';

const GPU = 'tenant_gpu_hours';
const { signal: NEVER } = new AbortController();

/** Books with flat charges of few amounts, so that different prices may be equal. */
const books: fc.Arbitrary<PriceBook> = fc
  .tuple(untiedPrices(GPU), fc.array(fc.constantFrom(0, 1, 2), { minLength: 24, maxLength: 24 }))
  .map(([prices, amounts]) => {
    let next = 0;
    const flattened = prices.map((price): Price => {
      const rates = price.rates.map(({ from, charge }) => {
        next += 1;
        return charge === undefined ? { from } : { from, charge: flat(amounts[next % 24] ?? 0) };
      });
      return { ...price, rates };
    });
    return bookFor(flattened);
  });

const filters: fc.Arbitrary<ChargeFilter> = fc
  .tuple(matches, fc.constantFrom('0', '1', '2'), fc.boolean())
  .filter(([match]) => Object.keys(match).length > 0)
  .map(([match, amount, isBoth]) => ({
    values: Object.fromEntries(
      Object.entries(match).map(([key, value]) => [
        key,
        isBoth && key === 'sku' ? ['a', 'b'] : [value],
      ]),
    ),
    properties: { amount },
  }));

function chargeWith(amount: string, own: readonly ChargeFilter[]): Charge {
  return {
    lago_id: 'charge',
    lago_billable_metric_id: 'metric',
    billable_metric_code: GPU,
    code: GPU,
    charge_model: 'standard',
    pay_in_advance: false,
    min_amount_cents: 0,
    created_at: '2026-01-01T00:00:00Z',
    properties: { amount },
    filters: own,
  };
}

/** Returns the charge that a book's prices of today result in. */
function chargeOf(book: PriceBook): Charge {
  const priced = pricesOn(book, TODAY).flatMap(({ match, charge }) =>
    charge?.kind === 'flat' ? [{ match, amount: amountText(charge.picos) }] : [],
  );
  const isBase = ({ match }: (typeof priced)[number]): boolean => Object.keys(match).length === 0;
  const own = priced
    .filter((one) => !isBase(one))
    .map(({ match, amount }) => ({
      values: Object.fromEntries(Object.entries(match).map(([key, value]) => [key, [value]])),
      properties: { amount },
    }));
  return chargeWith(priced.find(isBase)?.amount ?? '0', own);
}

function forEverySku({ values, properties }: ChargeFilter): ChargeFilter {
  return { values: 'sku' in values ? { ...values, sku: ['a', 'b'] } : values, properties };
}

/** Returns whether the comparison reports no difference. */
async function isSame(book: PriceBook, charge: Charge): Promise<boolean> {
  const plan = { code: book.name, amount_currency: book.currency, charges: [charge] };
  const body = { plan };
  const client = { get: async () => ({ kind: 'ok', body, value: body, headers: {} }) as const };
  const query = { books: [{ book, isDefault: true }], metrics: new Set([GPU]), day: TODAY };
  const outcome = await pricesAtLago(client, book.name, query, NEVER);
  if (outcome.kind !== 'compared') throw new Error(outcome.reason);
  return outcome.books
    .flatMap(({ differences }) => differences)
    .every(({ kind }) => kind === 'same');
}

/** Returns the price of a unit at Lago, chosen like the stand-in chooses it for an event. */
function costThere(charge: Charge, usage: Readonly<Record<string, string>>): bigint | undefined {
  const event = { properties: usage } as Parameters<typeof filterOf>[1];
  const { amount } = (filterOf(charge, event) ?? charge).properties;
  return parseAmount(String(amount));
}

/** Returns the price of a unit by the book; 0 where it has none. */
function costHere(
  book: PriceBook,
  { sku, region, ...dimensions }: Readonly<Record<string, string>>,
): bigint {
  const usage = { sku, region };
  const found = new PriceFinder(book).find({ metric: GPU, dimensions, ...usage }, TODAY);
  return found?.charge.kind === 'flat' ? found.charge.picos : 0n;
}

test('a charge that is as in the book is reported as equal, and bills the prices of the book', async () => {
  await fc.assert(
    fc.asyncProperty(books, fc.array(matches, { maxLength: 10 }), async (book, usages) => {
      const charge = chargeOf(book);
      expect(await isSame(book, charge)).toBe(true);
      for (const usage of usages) expect(costThere(charge, usage)).toBe(costHere(book, usage));
    }),
  );
});

test('whatever is reported as equal bills every usage as the book does', async () => {
  await fc.assert(
    fc.asyncProperty(
      books,
      fc.array(filters, { maxLength: 1 }),
      fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 })),
      fc.array(matches, { minLength: 10, maxLength: 30 }),
      async (book, added, [dropped, widened], usages) => {
        const own = chargeOf(book);
        const stored = own.filters
          .filter((_, index) => index !== dropped)
          .map((filter, index) => (index === widened ? forEverySku(filter) : filter));
        const charge = { ...own, filters: [...stored, ...added] };
        const asBook = usages.every((usage) => costThere(charge, usage) === costHere(book, usage));
        expect(asBook || !(await isSame(book, charge))).toBe(true);
      },
    ),
  );
});
