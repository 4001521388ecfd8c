import type { Budget } from '../../model/budget.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { monthCost } from '../../pricing/charges.ts';
import { foundOneByOne } from '../../pricing/testing/one-by-one.ts';
import type { UsageItem } from '../../usage/usage-sums.ts';
import type { LiveCharge } from '../account.ts';

/** Everything that a tenant has and does, as a test knows it. */
export interface World {
  readonly book: PriceBook;
  readonly counts: Budget['counts'];
  readonly from: number;
  readonly stored: readonly UsageItem[];
  readonly live: readonly LiveCharge[];
}

/** What is used at a moment, added up from the beginning: each item and each charge priced by its own day. */
export function naivelyUsed({ book, counts, from, stored, live }: World, at: number): bigint {
  const months = new Map<
    string,
    {
      price: ReturnType<typeof foundOneByOne>;
      before: bigint;
      since: bigint;
      live: bigint;
      divisor: bigint;
    }
  >();
  const lineOf = (usage: LiveCharge['usage'], start: number) => {
    const day = new Date(start).toISOString().slice(0, 10);
    const price = foundOneByOne(book.prices, usage, day);
    const name =
      counts.kind === 'metric' ? 'all' : `${price?.name} ${price?.from} ${day.slice(0, 7)}`;
    if (counts.kind === 'metric' ? usage.metric !== counts.metric : price === undefined)
      return undefined;
    const line = months.get(name) ?? { price, before: 0n, since: 0n, live: 0n, divisor: 1n };
    months.set(name, line);
    return line;
  };
  for (const item of stored) {
    const start = Date.parse(item.window_start);
    const line = lineOf(item, start);
    if (line === undefined) continue;
    if (start < from) line.before += nanosFromDecimal(item.quantity);
    else line.since += nanosFromDecimal(item.quantity);
  }
  for (const { usage, windowStart, amount, at: since, rate, divisor } of live) {
    const line = windowStart < from ? undefined : lineOf(usage, windowStart);
    if (line === undefined) continue;
    line.live += amount + rate * BigInt(at - since);
    line.divisor = divisor;
  }
  let used = 0n;
  for (const { price, before, since, live: going, divisor } of months.values()) {
    const rest = ((going % divisor) + divisor) % divisor;
    const quantity = since + (going - rest) / divisor;
    if (counts.kind === 'metric') used += quantity > 0n ? quantity : 0n;
    else if (price !== undefined)
      used += monthCost(price.charge, before + quantity) - monthCost(price.charge, before);
  }
  return used;
}

/** The first millisecond at which so much is used, looked for one by one. */
export function naivelyReached(
  world: World,
  level: bigint,
  from: number,
  until: number,
): number | undefined {
  for (let at = from; at < until; at += 1) if (naivelyUsed(world, at) >= level) return at;
  return undefined;
}
