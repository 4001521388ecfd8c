import type { UsageEvent } from '../model/event.ts';
import type { PriceBook } from '../model/price-book.ts';
import { createPriceFinder, type PriceFinder } from './find-price.ts';

/** Names one rate of a book for good: no two of its rates have the same name, `h100@2026-12-15`. */
export function rateName({ name, from }: { readonly name: string; readonly from: string }): string {
  return `${name}@${from}`;
}

/** Tells of usage by which rate each book prices it. */
export interface RateNames {
  /** Books that have no price for it are left out. */
  of(event: UsageEvent): ReadonlyMap<string, string>;
}

/** `books` gives those in force, the same ones until one of them changes. */
export function createRateNames(books: () => readonly PriceBook[]): RateNames {
  const finders = new WeakMap<PriceBook, PriceFinder>();
  const finderOf = (book: PriceBook): PriceFinder => {
    const known = finders.get(book) ?? createPriceFinder(book);
    finders.set(book, known);
    return known;
  };
  return {
    of: (event) => {
      const day = event.window_start.slice(0, 10);
      return new Map(
        books().flatMap((book) => {
          const found = finderOf(book).find(event, day);
          return found === undefined ? [] : [[book.name, rateName(found)] as const];
        }),
      );
    },
  };
}
