import type { Charge } from '../world/honest-estate.ts';

/** A usage event, as far as a bill is concerned. */
export interface BilledEvent {
  readonly id: string;
  readonly tenant: string;
  readonly metric: string;
  readonly quantity: number;
  readonly window_start: string;
  readonly window_end: string;
  readonly dimensions?: Readonly<Record<string, string>>;
}

export interface BillWindow {
  /** Milliseconds since the epoch. */
  readonly start: number;
  readonly end: number;
}

const HOUR_MS = 3_600_000n;
/** Each event is rounded once, to nine decimals. */
const ROUNDING = 1e-9;

type Sums = Map<string, { quantity: number; events: number }>;

/** What a charge comes to in a window. */
export function amountOf(charge: Charge, window: BillWindow): number {
  const from = Math.max(window.start, charge.from ?? window.start);
  const to = Math.min(window.end, charge.to ?? window.end);
  if (to <= from) return 0;
  return Number((charge.nanosPerHour * BigInt(to - from)) / HOUR_MS) / 1e9;
}

/** A bill against the truth: what is not there at all, and what differs. */
export interface Comparison {
  /** Whether anything that must be there is not there yet, and what. */
  readonly missing: readonly string[];
  readonly wrong: readonly string[];
}

/** Compares by tenant, metric and, where bills are split by it, namespace. Only given tenants are looked at. */
export function compareBill(
  events: readonly BilledEvent[],
  charges: readonly Charge[],
  tenants: readonly string[],
  window: BillWindow,
): Comparison {
  const billed: Sums = new Map();
  for (const event of events) {
    if (!tenants.includes(event.tenant)) continue;
    add(billed, keyOf(event.tenant, event.metric, event.dimensions?.['namespace']), event.quantity);
  }
  const due: Sums = new Map();
  for (const charge of charges) {
    const amount = amountOf(charge, window);
    if (amount > 0) add(due, keyOf(charge.tenant, charge.metric, charge.namespace), amount);
  }
  const missing = [...due.keys()].filter((key) => !billed.has(key));
  const wrong = [...billed].flatMap(([key, { quantity, events: count }]) => {
    const expected = due.get(key);
    if (expected === undefined) return [`${key}: billed ${quantity}, where nothing was due`];
    const tolerance = ROUNDING * (count + expected.events);
    const differs = Math.abs(quantity - expected.quantity) > tolerance;
    return differs ? [`${key}: billed ${quantity}, where ${expected.quantity} was due`] : [];
  });
  return { missing, wrong };
}

function keyOf(tenant: string, metric: string, namespace?: string): string {
  return [tenant, metric, ...(namespace === undefined ? [] : [namespace])].join(' ');
}

function add(sums: Sums, key: string, quantity: number): void {
  const sum = sums.get(key) ?? { quantity: 0, events: 0 };
  sums.set(key, { quantity: sum.quantity + quantity, events: sum.events + 1 });
}
