import type { Budget } from '../../../model/budget.ts';
import { nanosFromDecimal } from '../../../model/decimal.ts';
import type { PriceBook } from '../../../model/price-book.ts';
import { monthCost } from '../../../model/pricing/charges.ts';
import { foundOneByOne } from '../../../model/pricing/testing/one-by-one.ts';
import type { UsageItem } from '../../usage/usage-sums.ts';
import type { CountedUsage, OngoingUsage } from '../account.ts';

/** Everything that a tenant has and does, as a test knows it. */
export interface NaiveWorld {
  readonly book: PriceBook;
  readonly counts: Budget['counts'];
  readonly from: number;
  readonly stored: readonly UsageItem[];
  /** Absent where nothing goes on. */
  readonly ongoing?: readonly OngoingUsage[];
}

/**
 * What is used at a moment, added up from the beginning: each item priced by its own day, and what
 * goes on by the day on which it begins.
 */
export function naivelyUsed(world: NaiveWorld, at: number): bigint {
  const { book, counts, from, stored, ongoing = [] } = world;
  const months = new Map<
    string,
    {
      price: ReturnType<typeof foundOneByOne>;
      before: bigint;
      since: bigint;
      going: bigint;
      windowMs: number;
    }
  >();
  const lineOf = (usage: CountedUsage, start: number) => {
    const day = new Date(start).toISOString().slice(0, 10);
    const price = foundOneByOne(book.prices, usage, day);
    const name =
      counts.kind === 'metric' ? 'all' : `${price?.name} ${price?.from} ${day.slice(0, 7)}`;
    if (counts.kind === 'metric' ? usage.metric !== counts.metric : price === undefined)
      return undefined;
    const line = months.get(name) ?? { price, before: 0n, since: 0n, going: 0n, windowMs: 1 };
    months.set(name, line);
    return line;
  };
  for (const item of stored) {
    const start = Date.parse(item.window_start);
    const line = lineOf(item, start);
    if (line === undefined) continue;
    if (!isCounted(item, from)) line.before += nanosFromDecimal(item.quantity);
    else line.since += nanosFromDecimal(item.quantity);
  }
  for (const { usage, nanos, since, windowMs } of ongoing) {
    const begin = Math.max(since, from);
    const line = lineOf(usage, begin);
    if (line === undefined) continue;
    line.going += nanos * BigInt(Math.max(0, at - begin));
    line.windowMs = windowMs;
  }
  let used = 0n;
  for (const { price, before, since, going, windowMs } of months.values()) {
    const quantity = since + going / BigInt(windowMs);
    if (counts.kind === 'metric') used += quantity > 0n ? quantity : 0n;
    else if (price !== undefined)
      used += monthCost(price.charge, before + quantity) - monthCost(price.charge, before);
  }
  return used;
}

/** Whether usage counts: also that of a window that ends after `from` and begins in its hour. */
function isCounted(item: UsageItem, from: number): boolean {
  const { window_start: start, window_end: end = start } = item;
  const isOfHour = start.slice(0, 13) === new Date(from).toISOString().slice(0, 13);
  return Date.parse(start) >= from || (isOfHour && Date.parse(end) > from);
}

/** The first millisecond at which so much is used, looked for one by one. */
export function naivelyReached(
  world: NaiveWorld,
  level: bigint,
  from: number,
  until: number,
): number | undefined {
  for (let at = from; at < until; at += 1) if (naivelyUsed(world, at) >= level) return at;
  return undefined;
}
