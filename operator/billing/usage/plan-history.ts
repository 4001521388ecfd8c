import { parseRecord } from '../../model/parse-record.ts';
import type { Ledger } from '../../ledger/ledger.ts';

/**
 * A tenant's plans, each with its first UTC day, `2026-11-21`. The first entry counts from the
 * beginning, `''`.
 */
export type PlanHistory = readonly (readonly [from: string, plan: string])[];

const PREFIX = 'costs/plan/';

/** The record key of a tenant's plan history. */
export function planRecordKey(tenant: string): string {
  return `${PREFIX}${tenant}`;
}

/** The tenant's plan at the end of a day; undefined if unknown. */
export function planOn(history: PlanHistory, day: string): string | undefined {
  return history.findLast(([from]) => from <= day)?.[1];
}

/**
 * The history with `plan` from the day `from` on. Returns the same object if nothing changes.
 * 1. The first known plan counts from the beginning.
 * 2. Later entries than `from` are dropped; earlier ones stay.
 */
export function withPlan(history: PlanHistory, plan: string, from: string): PlanHistory {
  if (history.length === 0) return [['', plan]];
  const before = history.filter(([begun]) => begun < from);
  const next = planOn(before, from) === plan ? before : [...before, [from, plan] as const];
  return JSON.stringify(next) === JSON.stringify(history) ? history : next;
}

/**
 * The plan histories of all tenants that ever had one. Calls `damaged` with the key of each damaged
 * record.
 */
export async function readPlanHistories(
  ledger: Pick<Ledger, 'records'>,
  damaged: (key: string) => void = () => undefined,
): Promise<ReadonlyMap<string, PlanHistory>> {
  const histories = new Map<string, PlanHistory>();
  for await (const [key, text] of ledger.records(PREFIX)) {
    const history = parseRecord(text, isHistory);
    if (history === undefined) damaged(key);
    else histories.set(key.slice(PREFIX.length), history);
  }
  return histories;
}

function isHistory(value: unknown): value is PlanHistory {
  return Array.isArray(value) && value.length > 0 && value.every(isEntry);
}

function isEntry(value: unknown): value is PlanHistory[number] {
  return (
    Array.isArray(value) && value.length === 2 && value.every((one) => typeof one === 'string')
  );
}
