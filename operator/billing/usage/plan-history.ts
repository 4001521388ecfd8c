import type { Ledger } from '../../ledger/ledger.ts';

/** The plans that a tenant has been on, each from a UTC day on, `2026-11-21`; the first from the beginning, `''`. */
export type PlanHistory = readonly (readonly [from: string, plan: string])[];

const PREFIX = 'costs/plan/';

/** The key of the record that keeps a tenant's history. */
export function planRecordKey(tenant: string): string {
  return `${PREFIX}${tenant}`;
}

/** The plan that a tenant was on at the end of a day; undefined where nothing is known of it. */
export function planOn(history: PlanHistory, day: string): string | undefined {
  return history.findLast(([from]) => from <= day)?.[1];
}

/**
 * The history of a tenant that is wanted on a plan from a day on; the same object where that is no news. What was to
 * come after that day is called off, and what was before stays. The first plan that is known of counts from the beginning.
 */
export function withPlan(history: PlanHistory, plan: string, from: string): PlanHistory {
  if (history.length === 0) return [['', plan]];
  const before = history.filter(([begun]) => begun < from);
  const next = planOn(before, from) === plan ? before : [...before, [from, plan] as const];
  return JSON.stringify(next) === JSON.stringify(history) ? history : next;
}

/** The histories of all tenants that there ever were. Calls `damaged` with the key of each record that cannot be read. */
export async function readPlanHistories(
  ledger: Pick<Ledger, 'records'>,
  damaged: (key: string) => void = () => undefined,
): Promise<ReadonlyMap<string, PlanHistory>> {
  const histories = new Map<string, PlanHistory>();
  for await (const [key, text] of ledger.records(PREFIX)) {
    const history = parseHistory(text);
    if (history === undefined) damaged(key);
    else histories.set(key.slice(PREFIX.length), history);
  }
  return histories;
}

function parseHistory(text: string): PlanHistory | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.length > 0 && value.every(isEntry) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isEntry(value: unknown): value is PlanHistory[number] {
  return (
    Array.isArray(value) && value.length === 2 && value.every((one) => typeof one === 'string')
  );
}
