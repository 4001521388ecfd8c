import type { Budget } from '../../model/budget.ts';
import type { BudgetStatement } from '../enforcement/states/tenant-record.ts';
import type { TimeRange } from '../../model/window.ts';
import type { BudgetAccount } from './account.ts';
import { type BudgetLevels, levelsOf } from './levels.ts';
import { nextDay, periodAt } from './period.ts';

/** A threshold that the tenant reached in a period. */
export interface Crossing {
  readonly percent: number;
  /** When the operator saw it, milliseconds since the epoch. */
  readonly at: number;
  /** Every destination has it. */
  readonly notified: boolean;
  /** The destinations that have it while others still lack it. */
  readonly notifiedTo?: readonly string[];
}

/** The durable record of a tenant's budget. Immutable, and in its stored form. */
export interface BudgetMemory {
  /** The period of the record. */
  readonly from: number;
  readonly to: number;
  /** The budget of the record ({@link termsOf}). */
  readonly terms: string;
  /** Each percentage once. */
  readonly crossed: readonly Crossing[];
  readonly state: BudgetStatement['state'];
  /** Since when nothing is left; absent while something is. */
  readonly since?: number;
}

/** The input of {@link evaluate}. */
export interface Evaluated {
  readonly budget: Budget;
  /** The sum of all credits of a prepaid balance; absent for other budgets. */
  readonly credited?: bigint;
  readonly period: TimeRange;
  readonly account: Pick<BudgetAccount, 'usedAt' | 'reaches'>;
  /** False for a tenant that is only warned, whatever its budget asks for. */
  readonly maySuspend: boolean;
  /**
   * False while events of a closed window are on their way into the account: more may be used than
   * it shows.
   */
  readonly isComplete: boolean;
  /** The record of the last evaluation; undefined if there is none. */
  readonly memory: BudgetMemory | undefined;
}

/**
 * Usage can fall when a sample overestimated. Within a period a tenant is released only if nothing
 * would be left again within this time. So a tenant does not alternate between suspended and
 * active.
 */
const STEADY_MS = 600_000;
/** The ledger has the events of the closing window by then. */
const RETRY_INCOMPLETE_MS = 500;

const SEVERITY: readonly BudgetStatement['state'][] = ['active', 'warning', 'suspended'];

/**
 * Evaluates a tenant's budget at a moment.
 * 1. A threshold is reached once a period, even when the used amount falls and rises again.
 * 2. The state rises at once.
 * 3. The state falls with a new period, with other terms, and when usage has fallen for good.
 */
export function evaluate(
  evaluated: Evaluated,
  now: number,
): {
  readonly memory: BudgetMemory;
  /** When the result can next change if everything goes on, milliseconds since the epoch. */
  readonly nextAt: number;
} {
  const { budget, credited = 0n, period, account, isComplete } = evaluated;
  const memory = evaluated.memory;
  const terms = termsOf(evaluated);
  const isOther = memory !== undefined && (memory.terms !== terms || memory.from !== period.from);
  const levels = levelsOf(budget, credited);
  const used = account.usedAt(now);
  // A new month starts without the record of the previous one.
  const isNew = budget.period.kind === 'month' && memory?.from !== period.from;
  const before = isNew ? undefined : memory;
  const known = isOther ? stillReached(before, levels, used) : (before?.crossed ?? []);
  const news = levels.thresholds.filter(
    ({ percent, level }) => level <= used && !known.some((one) => one.percent === percent),
  );
  const crossed = [...known, ...news.map(({ percent }) => ({ percent, at: now, notified: false }))];
  const previous = isOther ? 'active' : (before?.state ?? 'active');
  const isOver = budget.atLimit !== 'none' && used >= levels.limit;
  const since = isOver || previous !== 'active' ? Math.min(before?.since ?? now, now) : undefined;
  const found = isOver ? stateOver(evaluated, { used, limit: levels.limit, since, now }) : 'active';
  const isLess = SEVERITY.indexOf(found) < SEVERITY.indexOf(previous);
  const stays = isLess && !(isComplete && isSteady(evaluated, levels.limit, now));
  const state = stays ? previous : found;
  const next: BudgetMemory = {
    ...period,
    terms,
    crossed,
    state,
    since: state === 'active' ? undefined : since,
  };
  return { memory: next, nextAt: nextEvaluationAt(evaluated, { next, levels, used, now }) };
}

/**
 * Text of what thresholds and states depend on: the budget, and the credits of a prepaid balance.
 * Other terms mean a fresh evaluation.
 */
export function termsOf({
  budget,
  credited,
  maySuspend,
}: Pick<Evaluated, 'budget' | 'credited' | 'maySuspend'>): string {
  const terms = [budget, maySuspend, ...(budget.period.kind === 'prepaid' ? [credited] : [])];
  return JSON.stringify(terms, (_, value: unknown) =>
    typeof value === 'bigint' ? `${value}` : value,
  );
}

/**
 * Keeps the thresholds that are still reached. The others are reported again when reached again.
 * Matters for a larger budget, and for rolling days on the next day.
 */
function stillReached(
  memory: BudgetMemory | undefined,
  { thresholds }: BudgetLevels,
  used: bigint,
): readonly Crossing[] {
  const reached = thresholds.flatMap(({ percent, level }) => (level <= used ? [percent] : []));
  return memory?.crossed.filter(({ percent }) => reached.includes(percent)) ?? [];
}

function stateOver(
  { budget: { atLimit, grace }, maySuspend }: Evaluated,
  at: {
    readonly used: bigint;
    readonly limit: bigint;
    readonly since: number | undefined;
    readonly now: number;
  },
): BudgetStatement['state'] {
  if (atLimit !== 'suspend' || !maySuspend) return 'warning';
  if (grace === undefined) return 'suspended';
  const { used, limit, since = at.now, now } = at;
  const isSpent = grace.kind === 'time' ? now >= since + grace.ms : used >= limit + grace.amount;
  return isSpent ? 'suspended' : 'warning';
}

/** Returns true when the usage does not soon reach the level again that limits the tenant. */
function isSteady({ account, budget, memory }: Evaluated, limit: bigint, now: number): boolean {
  const { grace } = budget;
  const more = memory?.state === 'suspended' && grace?.kind === 'amount' ? grace.amount : 0n;
  return account.reaches(limit + more, now, now + STEADY_MS) === undefined;
}

function nextEvaluationAt(
  { budget, period, account, maySuspend, isComplete }: Evaluated,
  at: {
    readonly next: BudgetMemory;
    readonly levels: BudgetLevels;
    readonly used: bigint;
    readonly now: number;
  },
): number {
  const { next, levels, used, now } = at;
  const isKnown = (percent: number): boolean => next.crossed.some((one) => one.percent === percent);
  const early = levels.thresholds.flatMap((one) => (isKnown(one.percent) ? [] : [one.level]));
  const { grace, atLimit } = budget;
  if (atLimit !== 'none') early.push(levels.limit);
  const suspends = atLimit === 'suspend' && maySuspend && next.state !== 'suspended';
  if (suspends && grace?.kind === 'amount') early.push(levels.limit + grace.amount);
  // Prices may change on the next day.
  const until = Math.min(nextDay(now), period.to);
  const moments = [until];
  const [level] = early.filter((one) => one > used).toSorted((a, b) => (a < b ? -1 : 1));
  const reached = level === undefined ? undefined : account.reaches(level, now, until);
  if (reached !== undefined) moments.push(reached);
  if (suspends && grace?.kind === 'time' && next.since !== undefined) {
    moments.push(next.since + grace.ms);
  }
  // The tenant may be released as soon as the account is complete.
  if (!isComplete && next.state !== 'active') moments.push(now + RETRY_INCOMPLETE_MS);
  return Math.max(now + 1, Math.min(...moments));
}

/**
 * The beginning of the period in which a threshold was reached, part of the id of its report. A
 * prepaid balance has no period: `at` stands for it, so each top-up can lead to a new report.
 */
export function periodOf(budget: Budget, { at }: Crossing): number {
  return periodAt(budget.period, at, at).from;
}
