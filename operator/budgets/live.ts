import { quantityOf } from '../model/catalog.ts';
import type { LiveUsage } from '../windows/live-usage.ts';
import type { LiveCharge } from './account.ts';

/** What goes on, as an account counts it; the metric must be a measured one. */
export function liveCharge({ identity, windowStart, amount, at, rate }: LiveUsage): LiveCharge {
  const { divisor, unit } = quantityOf(identity.metric);
  return { usage: { ...identity, unit }, windowStart, amount, at, rate, divisor };
}
