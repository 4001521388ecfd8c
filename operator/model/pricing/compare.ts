import type { Charge, Price, PriceBook } from '../price-book.ts';
import { chargeText } from './amount.ts';
import { sameCharge } from './same-charge.ts';

/** A price of a book as of a day. */
export type PriceOnDay = Omit<Price, 'rates'> & {
  /** Absent where the price is withdrawn by then. */
  readonly charge?: Charge;
};

/** The prices of a book that have begun by a UTC day such as `2026-12-01`, withdrawn ones too. */
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
 * What a price of a book comes to at a billing system. `place` names where it stands there, for people and so that both
 * sides can be told to be the same: a meter, or {@link usagePlace}.
 */
export interface WantedPrice {
  readonly place: string;
  /** Its name in the book. */
  readonly price: string;
  /** Absent where the book has withdrawn it: nothing ought to stand there. */
  readonly charge?: Charge;
  /** Why the billing system cannot have it, for people. */
  readonly impossible?: string;
}

/** The prices of a book as of a day, where each stands for its own usage; `whyImpossible` tells of what cannot be had. */
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
  /** Under which people find it there. */
  readonly id: string;
  /** Text, for people, where it is of a kind that no price book has. */
  readonly charge: Charge | string;
  /** Nobody has set it: it is free only because something had to stand there. */
  readonly isUnset?: true;
}

/**
 * One price of the book held against what is there: it has to be made (`create`), it is another (`change`), it is
 * withdrawn and still there (`end`), it is there and the book has never had it, or a second time (`foreign`), it is as
 * it should be (`same`), or it cannot be had (`impossible`).
 */
export type PriceDifference =
  | {
      readonly kind: 'create';
      readonly price: string;
      readonly place: string;
      readonly wanted: Charge;
    }
  | {
      readonly kind: 'change';
      readonly price: string;
      readonly place: string;
      readonly id: string;
      readonly wanted: Charge;
      readonly there: Charge | string;
    }
  | {
      readonly kind: 'end';
      readonly price: string;
      readonly place: string;
      readonly id: string;
      readonly there: Charge | string;
    }
  | {
      readonly kind: 'foreign';
      readonly place: string;
      readonly id: string;
      readonly there: Charge | string;
    }
  | { readonly kind: 'same'; readonly price: string; readonly place: string; readonly id: string }
  | {
      readonly kind: 'impossible';
      readonly price: string;
      readonly place: string;
      readonly why: string;
    };

/** Holds what a book says against what is there: its prices in the book's order, then what else is there. */
export function comparePrices(
  wanted: readonly WantedPrice[],
  there: readonly PriceThere[],
): readonly PriceDifference[] {
  const byPlace = Map.groupBy(there, ({ place }) => place);
  const reported = new Set<PriceThere>();
  const own = wanted.flatMap((one): readonly PriceDifference[] => {
    const status = (byPlace.get(one.place) ?? []).filter((other) => !reported.has(other));
    const found = status.find((other) => isAsWanted(one, other)) ?? status[0];
    if (found !== undefined) reported.add(found);
    return differenceOf(one, found);
  });
  const others = there.filter((one) => !reported.has(one) && one.isUnset !== true);
  return [
    ...own,
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

/** Names the usage that a price is for: `tenant_gpu_hours{capacity_type="spot",sku="h100"}`. */
export function usagePlace(metric: string, match: Price['match']): string {
  const keys = Object.entries(match)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return keys.length === 0 ? metric : `${metric}{${keys.join(',')}}`;
}

/** A difference in a line for people; undefined where there is none. */
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

function thereText(there: Charge | string): string {
  return typeof there === 'string' ? there : chargeText(there);
}
