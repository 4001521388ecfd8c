import { decimalFromNanos } from '../../model/decimal.ts';
import type { Charge, Price, PriceBook } from '../../model/price-book.ts';
import { amountText } from '../../pricing/amount.ts';
import { rateName } from '../../pricing/rate-name.ts';
import { plainCharge } from '../../pricing/same-charge.ts';

const DAY_MS = 86_400_000;
/** Rates are there so long before they begin, so that no usage comes before its price. */
const AHEAD_DAYS = 7;
/** And so long after they have ended: no older usage is priced any more (docs/costs.md#when-prices-change). */
const BEHIND_DAYS = 400;
/** Quantities are whole nano-units. */
const UNIT_NANOS = 1_000_000_000n;

/** All prices of a charge are of one model at Lago; one amount is a tier without an end in either. */
export type ChargeModel = 'graduated' | 'volume';

/** The charge for a metric that meterfeed has made itself: nobody else's has such a code. */
export function ownChargeCode(metric: string): string {
  return `meterfeed-${metric}`;
}

/** The property of an event, and the key of a filter, by which a book prices usage. */
export function priceKey(book: string): string {
  return `price_${book}`;
}

/** A filter of a charge for the usage that one rate of a book prices. */
export interface RateFilter {
  /** {@link rateName} */
  readonly rate: string;
  readonly price: string;
  readonly charge: Charge;
}

/** What a charge of ours ought to have. */
export interface WantedCharge {
  readonly metric: string;
  readonly model: ChargeModel;
  /** What is charged for usage that names no rate: from before the book was there. */
  readonly otherwise: Charge;
  readonly filters: readonly RateFilter[];
}

const FREE: Charge = { kind: 'flat', picos: 0n, includedNanos: 0n };

/**
 * The charge that a book's prices of a metric come to: a filter for each rate that holds, soon will or has held, so
 * that usage is charged by the rate of its own day whenever an invoice is computed
 * (docs/destinations/lago.md#prices-kept-by-meterfeed). `isPossible` tells of what Lago can have.
 */
export function wantedCharge(
  { prices }: Pick<PriceBook, 'prices'>,
  metric: string,
  day: string,
  isPossible: (price: Price, charge: Charge) => boolean,
  given?: ChargeModel,
): WantedCharge {
  const own = prices.filter((price) => price.metric === metric);
  const all = own.flatMap((price) =>
    heldRates(price, day).flatMap(({ from, charge }): readonly RateFilter[] => {
      if (charge === undefined || !isPossible(price, charge)) return [];
      return [{ rate: rateName({ name: price.name, from }), price: price.name, charge }];
    }),
  );
  const kinds = new Set(all.map(({ charge }) => plainCharge(charge).kind));
  const model = given ?? (kinds.has('volume') && !kinds.has('graduated') ? 'volume' : 'graduated');
  const filters = all.filter(({ charge }) => fits(charge, model));
  const unspecific = own.find(({ match }) => Object.keys(match).length === 0);
  const from = unspecific?.rates.findLast((rate) => rate.from <= day)?.from ?? '';
  const standing = rateName({ name: unspecific?.name ?? '', from });
  const otherwise = filters.find(({ rate }) => rate === standing)?.charge ?? FREE;
  return { metric, model, otherwise, filters };
}

/** Whether a charge can be had where all others are of a model. */
export function fits(charge: Charge, model: string): boolean {
  const { kind } = plainCharge(charge);
  return kind === 'flat' || kind === model;
}

function heldRates({ rates }: Price, day: string): Price['rates'] {
  const first = dayFrom(day, -BEHIND_DAYS);
  const last = dayFrom(day, AHEAD_DAYS);
  return rates.filter(({ from }, index) => {
    const next = rates[index + 1]?.from;
    return from <= last && (next === undefined || next > first);
  });
}

function dayFrom(day: string, days: number): string {
  return new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}

/** The properties of a charge or a filter that come to a price; amounts are text, as Lago wants them. */
export function chargeProperties(charge: Charge, model: ChargeModel): Record<string, unknown> {
  const plain = plainCharge(charge);
  const tiers = plain.kind === 'flat' ? [] : plain.tiers;
  const beyond = plain.kind === 'flat' ? plain.picos : plain.beyondPicos;
  const ranges = [...tiers, { upToNanos: undefined, picos: beyond }].map(
    ({ upToNanos, picos }, index) => {
      const before = tiers[index - 1]?.upToNanos;
      return {
        // Ranges begin a unit after the one before by Lago's own counting, and leave nothing out.
        from_value: before === undefined ? 0 : Number(decimalFromNanos(before + UNIT_NANOS)),
        to_value: upToNanos === undefined ? null : Number(decimalFromNanos(upToNanos)),
        per_unit_amount: amountText(picos),
        flat_amount: '0',
      };
    },
  );
  return { [`${model}_ranges`]: ranges };
}
