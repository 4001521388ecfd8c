import { inMonths } from '../boundaries.ts';

/**
 * Returns the next day and time of `billing_cycle_anchor_config`, in UTC
 * (https://docs.stripe.com/billing/subscriptions/billing-cycle).
 */
export function anchorOf(
  config: {
    readonly day: number;
    readonly hour: number;
    readonly minute: number;
    readonly second: number;
  },
  after: number,
): number {
  const time = config.hour * 3600 + config.minute * 60 + config.second;
  const date = new Date(after * 1000);
  const first = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) / 1000;
  for (let months = 0; ; months += 1) {
    const month = inMonths(first, months);
    const last = new Date(inMonths(first, months + 1) * 1000 - 1).getUTCDate();
    const at = month + (Math.min(config.day, last) - 1) * 86_400 + time;
    if (at > after) return at;
  }
}
