import type { UsageEvent } from '../../model/event.ts';
import type { UnpricedUsage } from '../destination.ts';
import type { LagoCharge, LagoPlan } from './plans.ts';

/** What is remembered of what was seen; beyond it new kinds of usage are not looked at. */
const MAX_SEEN = 2_000;
const ANY_VALUE = '__ALL_FILTER_VALUES__';
const FREE = /^0*(\.0*)?$/;

/** Which kinds of usage have come, and which of them no charge puts a price on (design 7). */
export interface UnpricedWatch {
  see(plan: string, events: readonly UsageEvent[]): void;
  /** Plans that matter. */
  plans(): readonly string[];
  /** `planOf` gives a plan as it was read last; kinds whose plan is not known are left out. */
  unpriced(planOf: (code: string) => LagoPlan | undefined): readonly UnpricedUsage[];
}

export function createUnpricedWatch(): UnpricedWatch {
  const seen = new Map<string, UnpricedUsage>();
  return {
    see: (plan, events) => {
      for (const { metric, sku } of events) {
        const key = `${plan}\0${metric}\0${sku ?? ''}`;
        if (seen.has(key) || seen.size >= MAX_SEEN) continue;
        seen.set(key, { plan, metric, ...(sku !== undefined && { sku }) });
      }
    },
    plans: () => [...new Set([...seen.values()].map(({ plan }) => plan))],
    unpriced: (planOf) =>
      [...seen.values()].filter((usage) => {
        const plan = planOf(usage.plan);
        return plan !== undefined && !isPriced(plan, usage);
      }),
  };
}

function isPriced({ charges }: LagoPlan, { metric, sku }: UnpricedUsage): boolean {
  return charges.some((charge) => charge.metric === metric && prices(charge, sku));
}

/** A model other than `standard` has no amount of its own, and counts as priced. */
function prices(charge: LagoCharge, sku: string | undefined): boolean {
  if (!isFree(charge.amount)) return true;
  return charge.filters.some(({ values, amount }) => {
    const skus = values['sku'];
    const concerns = !Array.isArray(skus) || skus.includes(ANY_VALUE) || skus.includes(sku);
    return concerns && !isFree(amount);
  });
}

function isFree(amount: string | undefined): boolean {
  return amount !== undefined && FREE.test(amount);
}
