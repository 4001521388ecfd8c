import type { UsageEvent } from '../../model/event.ts';
import type { UnpricedUsage } from '../destination.ts';
import { meterName } from './meter-name.ts';

/** What is remembered of what was seen; beyond it new kinds of usage are not looked at. */
const MAX_SEEN = 2_000;

/** Which kinds of usage have come, and which of them no price charges (design 7). */
export interface UnpricedWatch {
  see(plan: string, events: readonly UsageEvent[]): void;
  /** `isPriced` says whether a price charges a meter in a plan; undefined when that is not known. */
  unpriced(
    isPriced: (plan: string, meter: string) => boolean | undefined,
  ): readonly UnpricedUsage[];
}

interface Seen {
  readonly usage: UnpricedUsage;
  readonly meter: string;
}

export function createUnpricedWatch(splitBy: readonly string[]): UnpricedWatch {
  const seen = new Map<string, Seen>();
  return {
    see: (plan, events) => {
      for (const event of events) {
        const meter = meterName(event, splitBy);
        const key = `${plan}\0${meter}`;
        if (seen.has(key) || seen.size >= MAX_SEEN) continue;
        const { metric, sku } = event;
        const named = sku !== undefined && meter !== metric;
        seen.set(key, { meter, usage: { plan, metric, ...(named && { sku }) } });
      }
    },
    unpriced: (isPriced) =>
      [...seen.values()]
        .filter(({ usage, meter }) => isPriced(usage.plan, meter) === false)
        .map(({ usage }) => usage),
  };
}
