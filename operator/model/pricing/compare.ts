import type { PriceCharge, Price, PriceBook } from '../price-book.ts';
import { chargeText } from './amount.ts';
import { sameCharge } from './same-charge.ts';

/** A price of a book as of a day. */
export type PriceOnDay = Omit<Price, 'rates'> & {
  /** Absent if the price is withdrawn on that day. */
  readonly charge?: PriceCharge;
};

/** A book's prices that have started by a UTC day, `2026-12-01`, with withdrawn ones. */
export function pricesOn(
  { prices }: Pick<PriceBook, 'prices'>,
  day: string,
): readonly PriceOnDay[] {
  return prices.flatMap(({ name, metric, match, rates }) => {
    const rate = rates.findLast(({ from }) => from <= day);
    if (rate === undefined) return [];
    return [{ name, metric, match, charge: rate.charge }];
  });
}

/**
 * What a billing system should have for a price of a book. `place` identifies the price on both
 * sides and for people: a meter, or {@link usagePlace}.
 */
export interface WantedPrice {
  readonly place: string;
  /** Its name in the book. */
  readonly price: string;
  /** Absent if the book has withdrawn it: the billing system should have none. */
  readonly charge?: PriceCharge;
  /** Why the billing system cannot have it, for people. */
  readonly impossible?: string;
}

/**
 * The prices of a book as of a day, one for each kind of usage. `whyImpossible` returns why the
 * billing system cannot have a price.
 */
export function wantedByUsage(
  book: PriceBook,
  day: string,
  whyImpossible: (price: PriceOnDay) => string | undefined,
): readonly WantedPrice[] {
  return pricesOn(book, day).map((price) => {
    const { name, metric, match, charge } = price;
    const impossible = whyImpossible(price);
    return {
      place: usagePlace(metric, match),
      price: name,
      charge,
      impossible,
    };
  });
}

/** A price as a billing system has it. */
export interface PriceThere {
  readonly place: string;
  /** The id or name with which people find it there. */
  readonly id: string;
  /** A text for people if no price book has such a charge. */
  readonly charge: PriceCharge | string;
  /** Nobody has set a price: it is free because the billing system requires an entry. */
  readonly isUnset?: true;
}

/**
 * One price of the book compared with the billing system:
 * 1. `create`: it is missing there.
 * 2. `change`: it differs.
 * 3. `end`: it is withdrawn and still there.
 * 4. `foreign`: it is there, and the book never had it or has it once already.
 * 5. `same`: both agree.
 * 6. `impossible`: the billing system cannot have it.
 */
export type PriceDifference =
  | {
      readonly kind: 'create';
      readonly price: string;
      readonly place: string;
      readonly wanted: PriceCharge;
    }
  | {
      readonly kind: 'change';
      readonly price: string;
      readonly place: string;
      readonly id: string;
      readonly wanted: PriceCharge;
      readonly there: PriceCharge | string;
    }
  | {
      readonly kind: 'end';
      readonly price: string;
      readonly place: string;
      readonly id: string;
      readonly there: PriceCharge | string;
    }
  | {
      readonly kind: 'foreign';
      readonly place: string;
      readonly id: string;
      readonly there: PriceCharge | string;
    }
  | { readonly kind: 'same'; readonly price: string; readonly place: string; readonly id: string }
  | {
      readonly kind: 'impossible';
      readonly price: string;
      readonly place: string;
      readonly why: string;
    };

/** Compares a book with a billing system. Returns the book's prices in order, then the others. */
export function comparePrices(
  wanted: readonly WantedPrice[],
  there: readonly PriceThere[],
): readonly PriceDifference[] {
  const byPlace = Map.groupBy(there, ({ place }) => place);
  const matched = new Set<PriceThere>();
  const ofBook = wanted.flatMap((one): readonly PriceDifference[] => {
    const candidates = (byPlace.get(one.place) ?? []).filter((other) => !matched.has(other));
    const found = candidates.find((other) => isAsWanted(one, other)) ?? candidates[0];
    if (found !== undefined) matched.add(found);
    return differenceOf(one, found);
  });
  const others = there.filter((one) => !matched.has(one) && one.isUnset !== true);
  return [
    ...ofBook,
    ...others.map(
      ({ place, id, charge }) => ({ kind: 'foreign', place, id, there: charge }) as const,
    ),
  ];
}

function differenceOf(
  wanted: WantedPrice,
  there: PriceThere | undefined,
): readonly PriceDifference[] {
  const { place, price, charge, impossible } = wanted;
  if (impossible !== undefined) return [{ kind: 'impossible', price, place, why: impossible }];
  if (charge === undefined) {
    if (there === undefined || there.isUnset === true) return [];
    return [{ kind: 'end', price, place, id: there.id, there: there.charge }];
  }
  if (there === undefined) return [{ kind: 'create', price, place, wanted: charge }];
  const { id } = there;
  if (isAsWanted(wanted, there)) return [{ kind: 'same', price, place, id }];
  return [{ kind: 'change', price, place, id, wanted: charge, there: there.charge }];
}

function isAsWanted({ charge }: WantedPrice, there: PriceThere): boolean {
  return (
    charge !== undefined && typeof there.charge !== 'string' && sameCharge(charge, there.charge)
  );
}

/** Names the usage of a price: `tenant_gpu_hours{capacity_type="spot",sku="h100"}`. */
export function usagePlace(metric: string, match: Price['match']): string {
  const keys = Object.entries(match)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return keys.length === 0 ? metric : `${metric}{${keys.join(',')}}`;
}

/** A difference as a text for people; undefined if there is none. */
export function differenceText(difference: PriceDifference): string | undefined {
  const { kind, place } = difference;
  if (kind === 'same') return undefined;
  if (kind === 'create') {
    const { price, wanted } = difference;
    return `${place} has no price: ${chargeText(wanted)} by "${price}"`;
  }
  if (kind === 'impossible')
    return `${place} cannot have price "${difference.price}": ${difference.why}`;
  const there = thereText(difference.there);
  if (kind === 'foreign') return `${place} costs ${there} and is in no price of the book`;
  if (kind === 'end') return `${place} costs ${there} and "${difference.price}" is withdrawn`;
  return `${place} costs ${there} instead of ${chargeText(difference.wanted)} by "${difference.price}"`;
}

function thereText(there: PriceCharge | string): string {
  return typeof there === 'string' ? there : chargeText(there);
}
