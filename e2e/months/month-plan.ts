import type { Misbehaviour } from '../fakes/misbehaviour.ts';
import { createRandom, type Random } from '../faults/random.ts';
import type { PlanChange } from '../../operator/model/tenant.ts';
import type { DestinationSettings } from '../../operator/settings/settings.ts';
import { G, H, type HandAct, type Metric, type PlanName } from './vendors.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
export const JANUARY = Date.UTC(2027, 0, 1);
const MARCH = Date.UTC(2027, 2, 1);
/**
 * When every invoice of the plan's usage is final, and what is on none is still told
 * (docs/explanation/delivery.md#invoices): that ends 62 days after it was found.
 */
export const END = Date.UTC(2027, 3, 2, 12);
const TENANTS = ['ant', 'bee', 'cat'];

/** What is fed for months, in which form. */
export const MONTH_VENDORS = [
  'lago',
  'lago with drafts',
  'stripe flexible',
  'stripe classic',
  'metronome',
  'webhook',
] as const;
export type MonthVendorName = (typeof MONTH_VENDORS)[number];

/** Those that can bill late usage by itself. */
const BILLS_SEPARATE = /^(lago|stripe)/;
const LATE = ['send', 'send', 'next', 'credit', 'hold'] as const;

/** Two months of a few tenants as data, made from a seed alone. Times are milliseconds since the epoch. */
export interface MonthPlan {
  readonly seed: number;
  readonly vendor: MonthVendorName;
  readonly late: NonNullable<DestinationSettings['late']>;
  /** In the order of time. */
  readonly steps: readonly MonthStep[];
}

export interface MonthStep {
  readonly at: number;
  readonly act: MonthAct;
}

export type MonthAct =
  | { readonly do: 'use'; readonly use: Use }
  | {
      readonly do: 'plan';
      readonly tenant: string;
      readonly plan: PlanName;
      readonly mode: PlanChange;
    }
  | { readonly do: 'arrive' | 'leave'; readonly tenant: string }
  /** An operator does something to a contract at the vendor, made for whichever tenant. */
  | { readonly do: 'hand'; readonly act: HandAct }
  /** An operator prices H on a plan that has no price for it. */
  | { readonly do: 'price'; readonly plan: PlanName }
  /** From now on the vendor does this; no orders: it behaves. */
  | { readonly do: 'weather'; readonly orders: readonly Misbehaviour[] }
  /** The process dies, and another one, with so many awaits to live, comes so long later. */
  | { readonly do: 'kill'; readonly downtimeMs: number; readonly awaits?: number };

export interface Use {
  readonly tenant: string;
  readonly metric: Metric;
  /** Start of the window. */
  readonly start: number;
  readonly units: number;
}

export function monthPlanOf(seed: number, vendor: MonthVendorName): MonthPlan {
  const random = createRandom(seed);
  const steps = [
    ...TENANTS.flatMap((tenant) => lifeOf(random, tenant)),
    ...pricesOf(random),
    ...weatherOf(random),
    ...killsOf(random),
  ];
  const late = BILLS_SEPARATE.test(vendor) ? random.pick(LATE) : 'send';
  if (vendor === 'metronome') steps.push(...handsOf(random));
  return { seed, vendor, late, steps: steps.toSorted((a, b) => a.at - b.at) };
}

/** A tenant's coming and going, its plans and its usage. */
function lifeOf(random: Random, tenant: string): MonthStep[] {
  const arrival = random.chance(0.5) ? JANUARY : JANUARY + random.between(0, 20 * 24) * HOUR_MS;
  const absences: (readonly [from: number, to: number])[] = [];
  const steps: MonthStep[] = [{ at: arrival, act: { do: 'arrive', tenant } }];
  if (random.chance(0.4)) {
    const from = moment(random, arrival + 2 * DAY_MS, MARCH);
    const to = from + random.pick([3 * HOUR_MS, 20 * HOUR_MS, 3 * DAY_MS, 12 * DAY_MS]);
    absences.push([from, to]);
    steps.push({ at: from, act: { do: 'leave', tenant } });
    steps.push({ at: to, act: { do: 'arrive', tenant } });
  }
  const isThere = (at: number): boolean =>
    at >= arrival && absences.every(([from, to]) => at < from || at >= to);
  for (let change = random.between(0, 2); change > 0; change -= 1) {
    const at = moment(random, arrival + HOUR_MS, MARCH - 2 * DAY_MS);
    const mode = random.pick<PlanChange>(['now', 'period-end']);
    const plan = random.pick<PlanName>(['a', 'b', 'c']);
    if (!isThere(at)) continue;
    steps.push({ at, act: { do: 'plan', tenant, plan, mode } });
    if (!random.chance(0.4)) continue;
    const undone = at + random.pick([MINUTE_MS / 2, 3 * MINUTE_MS, 50 * MINUTE_MS, 4 * DAY_MS]);
    const back = { do: 'plan', tenant, plan: 'a', mode } as const;
    if (isThere(undone)) steps.push({ at: undone, act: back });
  }
  const uses = [
    ...Array.from({ length: 40 }, () => moment(random, arrival, MARCH)),
    ...aroundEnd(random),
    ...steps.flatMap(({ at }) => [-2, -1, 0, 1, 2, 3].map((minutes) => at + minutes * MINUTE_MS)),
  ];
  const isUsed = new Set<string>();
  for (const at of uses) {
    const start = Math.floor(at / MINUTE_MS) * MINUTE_MS;
    const metric = random.chance(0.25) ? H : G;
    if (!isThere(start) || start >= MARCH || isUsed.has(`${metric} ${start}`)) continue;
    isUsed.add(`${metric} ${start}`);
    const delay = random.chance(0.06)
      ? random.pick([30 * MINUTE_MS, 2 * HOUR_MS, 30 * HOUR_MS, 5 * DAY_MS])
      : 2 * MINUTE_MS;
    const use = { tenant, metric, start, units: random.between(1, 9) };
    steps.push({ at: start + delay, act: { do: 'use', use } });
  }
  return steps;
}

/** The last hours of January and the first of February. */
function aroundEnd(random: Random): number[] {
  const end = JANUARY + 31 * DAY_MS;
  return Array.from({ length: 12 }, () => end + random.between(-180, 180) * MINUTE_MS);
}

function pricesOf(random: Random): MonthStep[] {
  return (['a', 'b', 'c'] as const)
    .filter(() => random.chance(0.7))
    .map((plan) => ({ at: moment(random, JANUARY + HOUR_MS, MARCH), act: { do: 'price', plan } }));
}

/** Contracts that somebody ends, archives, gives credit, or makes from a full hour on that may be over. */
function handsOf(random: Random): MonthStep[] {
  return Array.from({ length: random.between(0, 3) }, () => {
    const at = moment(random, JANUARY + DAY_MS, MARCH);
    const hour = Math.floor(at / HOUR_MS) * HOUR_MS;
    const act = random.pick<HandAct>([
      { hand: 'end', at: hour },
      { hand: 'archive' },
      { hand: 'credit', cents: 1_000 * random.between(1, 50) },
      { hand: 'sign', card: 'b', from: hour - random.between(-2, 20) * HOUR_MS },
    ]);
    return { at, act: { do: 'hand', act } };
  });
}

/** Answers that are lost or late, and an outage of two days, often across the end of the month. */
function weatherOf(random: Random): MonthStep[] {
  const fair = { do: 'weather', orders: [] } as const;
  const steps: MonthStep[] = [];
  if (random.chance(0.6)) {
    const end = JANUARY + 31 * DAY_MS;
    const from = random.chance(0.7)
      ? end - random.between(1, 47) * HOUR_MS
      : moment(random, JANUARY + DAY_MS, MARCH);
    const order: Misbehaviour = random.pick([{ kind: 'status', status: 503 }, { kind: 'reset' }]);
    steps.push({ at: from, act: { do: 'weather', orders: [order] } });
    steps.push({ at: from + 48 * HOUR_MS, act: fair });
  }
  for (let storm = random.between(0, 4); storm > 0; storm -= 1) {
    const kinds = ['reset', 'commit-then-reset', 'status', 'commit-then-status'] as const;
    const kind = random.pick(kinds);
    const order = { kind, status: 500, times: random.between(1, 5), every: random.between(1, 3) };
    steps.push({
      at: moment(random, JANUARY + HOUR_MS, MARCH),
      act: { do: 'weather', orders: [order] },
    });
  }
  return steps;
}

function killsOf(random: Random): MonthStep[] {
  return Array.from({ length: random.between(1, 5) }, () => ({
    at: moment(random, JANUARY + HOUR_MS, MARCH),
    act: {
      do: 'kill',
      downtimeMs: random.pick([1_000, MINUTE_MS, HOUR_MS, 10 * HOUR_MS]),
      awaits: random.between(1, 2_000),
    },
  }));
}

/** Any second between two moments. */
function moment(random: Random, from: number, to: number): number {
  return from + random.between(0, Math.max(0, Math.floor((to - from) / 1_000))) * 1_000;
}
