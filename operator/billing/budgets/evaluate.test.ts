import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Budget } from '../../model/budget.ts';
import { decimalFromNanos } from '../../model/decimal.ts';
import { BudgetAccount } from './account.ts';
import { type BudgetMemory, evaluate } from './evaluate.ts';

const GPU = 'tenant_gpu_hours';
const NOON = Date.parse('2026-11-21T12:00:00Z');
const MONTH = { from: Date.parse('2026-11-01T00:00:00Z'), to: Date.parse('2026-12-01T00:00:00Z') };
const NEXT = { from: MONTH.to, to: Date.parse('2027-01-01T00:00:00Z') };

const budgetOf = (change: Partial<Budget> = {}): Budget => ({
  counts: { kind: 'metric', metric: GPU },
  amount: 1000n,
  period: { kind: 'month' },
  thresholds: [50, 80, 100],
  atLimit: 'suspend',
  ...change,
});

/** An account of so many nano-units, to which each millisecond adds some. */
function accountOf(nanos: bigint, rate: bigint, now: number): BudgetAccount {
  const account = new BudgetAccount({
    tenant: 'acme',
    counts: { kind: 'metric', metric: GPU },
    period: MONTH,
    pricesOf: () => undefined,
  });
  const usage = { metric: GPU, unit: 'gpu-hours' };
  const quantity = decimalFromNanos(nanos);
  account.add({ ...usage, tenant: 'acme', quantity, window_start: '2026-11-01T00:00:00Z' });
  account.setOngoing([{ usage, nanos: rate, since: now, windowMs: 1 }]);
  return account;
}

/** What an operator does while a tenant uses something. */
interface Step {
  readonly afterMs: number;
  readonly rate: bigint;
  /**
   * `look` judges for no reason, `dip` while a window is on its way, `restart` after some time
   * away.
   */
  readonly kind: 'look' | 'dip' | 'restart';
}

interface Life {
  readonly budget: Budget;
  readonly steps: readonly Step[];
}

const graces: fc.Arbitrary<Pick<Budget, 'grace'>> = fc.oneof(
  fc.constant({}),
  fc.nat(500).map((ms) => ({ grace: { kind: 'time', ms } as const })),
  fc.nat(500).map((more) => ({ grace: { kind: 'amount', amount: BigInt(more) } as const })),
);

const lives: fc.Arbitrary<Life> = fc.record({
  budget: fc
    .record({
      amount: fc.integer({ min: 1, max: 3000 }).map(BigInt),
      thresholds: fc.uniqueArray(fc.integer({ min: 1, max: 100 }), { maxLength: 4 }),
      atLimit: fc.constantFrom('none', 'warn', 'suspend'),
    })
    .chain((change) =>
      (change.atLimit === 'suspend' ? graces : fc.constant({})).map((grace) =>
        budgetOf({ ...change, ...grace }),
      ),
    ),
  steps: fc.array(
    fc.record({
      afterMs: fc.integer({ min: 1, max: 200 }),
      rate: fc.nat(6).map(BigInt),
      kind: fc.constantFrom('look', 'look', 'dip', 'restart'),
    }),
    { minLength: 1, maxLength: 12 },
  ),
});

/** What a life shows: used at each millisecond, when nobody looked, and what was decided when. */
interface Shown {
  readonly used: readonly bigint[];
  readonly away: ReadonlySet<number>;
  readonly memories: readonly BudgetMemory[];
}

/**
 * The process wakes when it was told to, and at each change; away for half of the time before a
 * restart.
 */
function live({ budget, steps }: Life): Shown {
  const used: bigint[] = [];
  const away = new Set<number>();
  const memories: BudgetMemory[] = [];
  let memory: BudgetMemory | undefined;
  let [nanos, rate, again] = [0n, 0n, 0];
  let step = 0;
  let changeAt = 0;
  for (let ms = 0; step < steps.length; ms += 1) {
    nanos += ms === 0 ? 0n : rate;
    used.push(nanos);
    const current = steps[step];
    if (current === undefined) break;
    const isChange = ms === changeAt + current.afterMs;
    const isAway = current.kind === 'restart' && !isChange && ms > changeAt + current.afterMs / 2;
    if (isAway) away.add(ms);
    if (isChange) {
      step += 1;
      changeAt = ms;
      rate = current.rate;
      if (current.kind === 'restart') memory = memory && JSON.parse(JSON.stringify(memory));
    }
    if (!isAway && (isChange || ms >= again)) {
      const at = NOON + ms;
      const isDip = isChange && current.kind === 'dip';
      const seen = isDip ? nanos / 2n : nanos;
      const account = accountOf(seen, rate, at);
      const about = {
        budget,
        period: MONTH,
        account,
        maySuspend: true,
        isComplete: !isDip,
        memory,
      };
      const decision = evaluate(about, at);
      ({ memory } = decision);
      again = decision.nextAt - NOON;
      // The window has come: it is judged again.
      if (isDip) {
        const complete = {
          ...about,
          account: accountOf(nanos, rate, at),
          isComplete: true,
          memory,
        };
        const second = evaluate(complete, at);
        ({ memory } = second);
        again = second.nextAt - NOON;
      }
    }
    if (memory !== undefined) memories[ms] = memory;
  }
  return { used, away, memories };
}

/** The first millisecond from one on at which somebody is there. */
function seenFrom({ used, away }: Shown, ms: number): number {
  let at = ms;
  while (at < used.length && away.has(at)) at += 1;
  return at;
}

describe('a threshold', () => {
  test('is reached exactly once, in the millisecond in which it is, or when somebody is back', () => {
    fc.assert(
      fc.property(lives, (life) => {
        const shown = live(life);
        const end = shown.memories.at(-1);
        if (end === undefined) return;
        const expected = life.budget.thresholds.flatMap((percent) => {
          const reached = shown.used.findIndex(
            (nanos) => nanos * 100n >= life.budget.amount * BigInt(percent),
          );
          const at = reached < 0 ? -1 : seenFrom(shown, Math.max(reached, 1));
          return at < 0 || at >= shown.used.length ? [] : [[percent, NOON + at]];
        });
        const byPercent = (a: readonly number[], b: readonly number[]) => (a[0] ?? 0) - (b[0] ?? 0);
        const found = end.crossed.map(({ percent, at }) => [percent, at]);
        expect(found.toSorted(byPercent)).toStrictEqual(expected.toSorted(byPercent));
      }),
      { numRuns: 500 },
    );
  });

  test('that was reported is reported again in the next period only', () => {
    const reported = (memory: BudgetMemory): BudgetMemory => ({
      ...memory,
      crossed: memory.crossed.map((one) => ({ ...one, notified: true })),
    });
    const about = { budget: budgetOf(), period: MONTH, maySuspend: true, isComplete: true };
    const account = accountOf(900n, 0n, NOON);
    const first = evaluate({ ...about, account, memory: undefined }, NOON);
    expect(first.memory.crossed.map(({ percent }) => percent)).toStrictEqual([50, 80]);
    const less = accountOf(700n, 0n, NOON);
    const second = evaluate({ ...about, account: less, memory: reported(first.memory) }, NOON);
    const third = evaluate({ ...about, account, memory: second.memory }, NOON);
    expect(third.memory.crossed.every((one) => one.notified)).toBe(true);
    const after = { ...about, period: NEXT, memory: third.memory };
    const nothing = evaluate({ ...after, account: accountOf(0n, 0n, NEXT.from) }, NEXT.from);
    expect(nothing.memory.crossed).toStrictEqual([]);
    const again = evaluate({ ...after, account, memory: nothing.memory }, NEXT.from + 1);
    expect(again.memory.crossed.map((one) => one.notified)).toStrictEqual([false, false]);
  });

  test('of a larger budget is reported again, unless it is reached all the while', () => {
    const about = { period: MONTH, maySuspend: true, isComplete: true };
    const account = accountOf(900n, 0n, NOON);
    const first = evaluate({ ...about, account, budget: budgetOf(), memory: undefined }, NOON);
    const raised = { ...about, account, budget: budgetOf({ amount: 1500n }) };
    const second = evaluate({ ...raised, memory: first.memory }, NOON + 5);
    expect(second.memory.crossed).toStrictEqual([{ percent: 50, at: NOON, notified: false }]);
    const more = evaluate(
      { ...raised, account: accountOf(1200n, 0n, NOON), memory: second.memory },
      NOON + 9,
    );
    expect(more.memory.crossed.at(-1)).toStrictEqual({
      percent: 80,
      at: NOON + 9,
      notified: false,
    });
  });

  test('of rolling days is not reported again on the next day while it is reached', () => {
    const day = 86_400_000;
    const budget = budgetOf({ period: { kind: 'rolling', days: 3 } });
    const midnight = Date.parse('2026-11-22T00:00:00Z');
    const today = { from: midnight - 3 * day, to: midnight };
    const tomorrow = { from: today.from + day, to: today.to + day };
    const about = { budget, maySuspend: true, isComplete: true };
    const account = accountOf(900n, 0n, NOON);
    const first = evaluate({ ...about, period: today, account, memory: undefined }, NOON);
    const less = accountOf(600n, 0n, midnight);
    const memory = { ...first.memory };
    const next = evaluate({ ...about, period: tomorrow, account: less, memory }, midnight);
    expect(next.memory.crossed).toStrictEqual([{ percent: 50, at: NOON, notified: false }]);
  });
});

describe('the state of a tenant', () => {
  test('is what is used at each millisecond at which somebody is there, with time or amount granted', () => {
    fc.assert(
      fc.property(lives, (life) => {
        const { budget } = life;
        const shown = live(life);
        const over = shown.used.findIndex((nanos) => nanos >= budget.amount);
        const since = over < 0 ? Number.POSITIVE_INFINITY : seenFrom(shown, Math.max(over, 1));
        const wrong = [...shown.memories.entries()].filter(([ms, memory]) => {
          if (memory === undefined || shown.away.has(ms)) return false;
          const nanos = shown.used[ms] ?? 0n;
          const { grace } = budget;
          const isSpent =
            grace === undefined ||
            (grace.kind === 'time'
              ? ms >= since + grace.ms
              : nanos >= budget.amount + grace.amount);
          const full = budget.atLimit === 'suspend' && isSpent ? 'suspended' : 'warning';
          const isOver = budget.atLimit !== 'none' && ms >= since;
          return memory.state !== (isOver ? full : 'active');
        });
        expect(wrong).toStrictEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  const about = { budget: budgetOf(), period: MONTH, maySuspend: true, isComplete: true };
  const suspended = evaluate(
    { ...about, account: accountOf(1000n, 1n, NOON), memory: undefined },
    NOON,
  ).memory;

  test('falls with a larger budget and with a new period at once, however much goes on', () => {
    expect(suspended.state).toBe('suspended');
    const account = accountOf(1000n, 1n, NOON);
    const raised = { ...about, account, budget: budgetOf({ amount: 1001n }), memory: suspended };
    expect(evaluate(raised, NOON).memory.state).toBe('active');
    const later = { ...about, period: NEXT, memory: suspended };
    const nothing = accountOf(0n, 1000n, NEXT.from);
    expect(evaluate({ ...later, account: nothing }, NEXT.from).memory.state).toBe('active');
  });

  test('does not fall while a closed window is on its way, nor where the limit is reached again soon', () => {
    const less = { ...about, account: accountOf(990n, 0n, NOON), memory: suspended };
    const waiting = evaluate({ ...less, isComplete: false }, NOON);
    expect(waiting.memory.state).toBe('suspended');
    expect(waiting.nextAt - NOON).toBeLessThan(1_000);
    const soon = accountOf(990n, 1n, NOON);
    expect(evaluate({ ...less, account: soon }, NOON).memory.state).toBe('suspended');
    expect(evaluate(less, NOON).memory).not.toMatchObject({ since: expect.anything() });
    expect(evaluate(less, NOON).memory.state).toBe('active');
  });

  test('goes no further than a warning where a tenant is spared, from the moment at which it is', () => {
    const account = accountOf(1000n, 1n, NOON);
    const spared = { ...about, account, maySuspend: false, memory: suspended };
    expect(evaluate(spared, NOON).memory.state).toBe('warning');
    const none = { ...about, account, budget: budgetOf({ atLimit: 'none' }), memory: suspended };
    expect(evaluate(none, NOON).memory.state).toBe('active');
  });

  test('counts the time that is granted from when the clock that was ahead is right', () => {
    const budget = budgetOf({ grace: { kind: 'time', ms: 1000 } });
    const account = accountOf(1000n, 0n, NOON);
    const early = evaluate({ ...about, budget, account, memory: undefined }, NOON + 50_000);
    const right = evaluate({ ...about, budget, account, memory: early.memory }, NOON);
    expect(right.nextAt).toBe(NOON + 1000);
  });
});
