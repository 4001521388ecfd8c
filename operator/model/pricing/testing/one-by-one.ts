import type { PriceCharge, Price } from '../../price-book.ts';
import type { FoundPrice, PricedUsage } from '../find-price.ts';

/** Checks every price and every rate. Throws if two apply. */
export function foundOneByOne(
  prices: readonly Price[],
  usage: PricedUsage,
  day: string,
): FoundPrice | undefined {
  const { metric, sku, region, dimensions } = usage;
  const fields: Readonly<Record<string, string | undefined>> = { ...dimensions, sku, region };
  let size = -1;
  let found: FoundPrice[] = [];
  for (const price of prices) {
    const wanted = Object.entries(price.match);
    if (price.metric !== metric || wanted.some(([key, value]) => fields[key] !== value)) continue;
    let charge: PriceCharge | undefined;
    let from = '';
    for (const rate of price.rates) {
      if (rate.from > day) continue;
      charge = rate.charge;
      from = rate.from;
    }
    if (charge === undefined || wanted.length < size) continue;
    if (wanted.length > size) found = [];
    size = wanted.length;
    found.push({ name: price.name, from, match: price.match, charge });
  }
  if (found.length > 1) throw new Error(`tied: ${found.map(({ name }) => name).join(', ')}`);
  return found[0];
}

/** Cost of a month in 10⁻²¹ of the currency, added up for each nano-unit. */
export function countedCost(charge: PriceCharge, nanos: bigint): bigint {
  const charged = nanos > charge.includedNanos ? nanos - charge.includedNanos : 0n;
  let cost = 0n;
  for (let nth = 1n; nth <= charged; nth += 1n) {
    cost += picosOf(charge, charge.kind === 'volume' ? charged : nth);
  }
  return cost;
}

/** The price of the n-th charged nano-unit of a month, n from 1. */
function picosOf(charge: PriceCharge, nth: bigint): bigint {
  if (charge.kind === 'flat') return charge.picos;
  for (const { upToNanos, picos } of charge.tiers) if (nth <= upToNanos) return picos;
  return charge.beyondPicos;
}
