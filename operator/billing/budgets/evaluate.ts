import type { Budget } from '../../model/budget.ts';
import type { BudgetStatement } from '../enforcement/states/tenant-record.ts';
import type { TimeRange } from '../../model/window.ts';
import type { BudgetAccount } from './account.ts';
import { type BudgetLevels, levelsOf } from './levels.ts';
import { nextDay, periodAt } from './period.ts';

/** A threshold that was reached in a period. */
export interface Crossing {
  readonly percent: number;
  /** When that was seen, milliseconds since the epoch. */
  readonly at: number;
  /** Everybody has it. */
  readonly told: boolean;
  /** The destinations that have it, while others have not. */
  readonly toldTo?: readonly string[];
}

/** What is remembered of a tenant's budget, durably. Immutable, and as it is stored. */
export interface BudgetMemory {
  /** The period that it is about. */
  readonly from: number;
  readonly to: number;
  /** The budget that it is about ({@link termsOf}). */
  readonly terms: string;
  /** Each percentage once. */
  readonly crossed: readonly Crossing[];
  readonly state: BudgetStatement['state'];
  /** Since when nothing is left; absent while something is. */
  readonly since?: number;
}

export interface Evaluated {
  readonly budget: Budget;
  /** What a prepaid balance was credited with; absent of other budgets. */
  readonly credited?: bigint;
  readonly period: TimeRange;
  readonly account: Pick<BudgetAccount, 'usedAt' | 'reaches'>;
  /** False for a tenant that is only warned, whatever its budget says. */
  readonly maySuspend: boolean;
  /** False while closed windows are on their way into the account: what is used may be more than it says. */
  readonly isComplete: boolean;
  /** Undefined where nothing is known. */
  readonly memory: BudgetMemory | undefined;
}

/**
 * Less is used than was where the latest sample stood for too much. Whoever is held is let go within a period only where
 * nothing would be left again soon, so that nobody is held and let go in turns.
 */
const STEADY_MS = 600_000;
/** An account is whole again when the window that is being closed is in the ledger. */
const COMPLETE_SOON_MS = 500;

const SEVERITY: readonly BudgetStatement['state'][] = ['active', 'warning', 'suspended'];

/**
 * What a tenant's budget comes to at a moment: thresholds are reached once a period, however the account moves about
 * them, and the state rises at once. It falls with a new period, with other terms, and where less is used for good.
 */
export function judge(
  evaluated: Evaluated,
  now: number,
): {
  readonly memory: BudgetMemory;
  /** The next moment at which it may be another if everything goes on as now. */
  readonly again: number;
} {
  const { budget, credited = 0n, period, account, isComplete } = evaluated;
  const memory = evaluated.memory;
  const terms = termsOf(evaluated);
  const isOther = memory !== undefined && (memory.terms !== terms || memory.from !== period.from);
  const levels = levelsOf(budget, credited);
  const used = account.usedAt(now);
  // Another month has nothing of the one before.
  const isNew = budget.period.kind === 'month' && memory?.from !== period.from;
  const before = isNew ? undefined : memory;
  const known = isOther ? stillReached(before, levels, used) : (before?.crossed ?? []);
  const news = levels.thresholds.filter(
    ({ percent, level }) => level <= used && !known.some((one) => one.percent === percent),
  );
  const crossed = [...known, ...news.map(({ percent }) => ({ percent, at: now, told: false }))];
  const held = isOther ? 'active' : (before?.state ?? 'active');
  const isOver = budget.atLimit !== 'none' && used >= levels.limit;
  const since = isOver || held !== 'active' ? Math.min(before?.since ?? now, now) : undefined;
  const found = isOver ? stateOver(evaluated, { used, limit: levels.limit, since, now }) : 'active';
  const isLess = SEVERITY.indexOf(found) < SEVERITY.indexOf(held);
  const stays = isLess && !(isComplete && isSteady(evaluated, levels.limit, now));
  const state = stays ? held : found;
  const next: BudgetMemory = {
    ...period,
    terms,
    crossed,
    state,
    since: state === 'active' ? undefined : since,
  };
  return { memory: next, again: againAt(evaluated, { next, levels, used, now }) };
}

/** What thresholds and states are about: with another budget, or more credit, they are looked at anew. */
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

/** With a larger budget, and of rolling days on the next day, thresholds that are no longer reached are to be told again. */
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

/** Whether what holds a tenant is not reached again soon. */
function isSteady({ account, budget, memory }: Evaluated, limit: bigint, now: number): boolean {
  const { grace } = budget;
  const more = memory?.state === 'suspended' && grace?.kind === 'amount' ? grace.amount : 0n;
  return account.reaches(limit + more, now, now + STEADY_MS) === undefined;
}

function againAt(
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
  // Prices may be others on the next day.
  const until = Math.min(nextDay(now), period.to);
  const moments = [until];
  const [level] = early.filter((one) => one > used).toSorted((a, b) => (a < b ? -1 : 1));
  const reached = level === undefined ? undefined : account.reaches(level, now, until);
  if (reached !== undefined) moments.push(reached);
  if (suspends && grace?.kind === 'time' && next.since !== undefined) {
    moments.push(next.since + grace.ms);
  }
  // It may be let go as soon as the account says so.
  if (!isComplete && next.state !== 'active') moments.push(now + COMPLETE_SOON_MS);
  return Math.max(now + 1, Math.min(...moments));
}

/**
 * The period in which a threshold was reached: what is told once is told once in it. A prepaid balance has none, and
 * reaches a threshold again after each top-up.
 */
export function periodOf(budget: Budget, { at }: Crossing): number {
  return periodAt(budget.period, at, at).from;
}
