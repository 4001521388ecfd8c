import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { BudgetStatement } from '../enforcement/states/tenant-record.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { createManualClock } from '../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { Budget } from '../../model/budget.ts';
import { decimalFromNanos } from '../../model/decimal.ts';
import { BudgetAccount } from './account.ts';
import { BudgetLimiter, type ReachedThreshold } from './budget-limiter.ts';
import type { StoredBudget } from './make-accounts.ts';

type Notify = ConstructorParameters<typeof BudgetLimiter>[0]['notify'];

const GPU = 'tenant_gpu_hours';
const NOON = Date.parse('2026-11-21T12:00:00Z');
const MONTH = { from: Date.parse('2026-11-01T00:00:00Z'), to: Date.parse('2026-12-01T00:00:00Z') };

const BUDGET: Budget = {
  counts: { kind: 'metric', metric: GPU },
  amount: 1000n,
  period: { kind: 'month' },
  thresholds: [50, 80, 100],
  atLimit: 'suspend',
};

function storedOf(nanos: number, budget = BUDGET): StoredBudget {
  const { counts } = budget;
  const account = new BudgetAccount({
    tenant: 'acme',
    counts,
    period: MONTH,
    pricesOf: () => undefined,
  });
  account.add({
    tenant: 'acme',
    metric: GPU,
    unit: 'gpu-hours',
    quantity: decimalFromNanos(BigInt(nanos)),
    window_start: new Date(MONTH.from).toISOString(),
  });
  return { budget, override: 'acme', period: MONTH, account, madeOf: 0 };
}

/**
 * What outlives a process: the ledger, the API server's events by id, and what enforcement has
 * recorded.
 */
interface Outside {
  readonly ledger: Ledger;
  readonly events: Map<string, ReachedThreshold>;
  readonly states: Map<string, BudgetStatement['state']>;
}

/** How an attempt to report ends: the API server never receives it, or its answer is lost. */
type Mishap = 'notified' | 'unreceived' | 'unanswered';

interface ProcessOptions extends Outside {
  readonly mishaps?: Mishap[];
  readonly isSpared?: boolean;
  readonly notify?: Notify;
}

function startLimiter(options: ProcessOptions) {
  const { ledger, events, states, mishaps = [], isSpared = false } = options;
  const clock = createManualClock(NOON);
  const logger = createCapturingLogger();
  const limiter = new BudgetLimiter({
    ledger,
    enforcement: {
      applyBudgets: async (stated) => {
        for (const { tenant, state } of stated) states.set(tenant, state);
        return { kind: 'written' };
      },
      limitedByBudgets: () =>
        [...states].flatMap(([tenant, state]) => (state === 'active' ? [] : [tenant])),
    },
    isSpared: () => isSpared,
    notify:
      options.notify ??
      (async (reached) => {
        const mishap = mishaps.shift() ?? 'notified';
        if (mishap !== 'unreceived') events.set(reached.id, reached);
        return mishap === 'notified'
          ? { kind: 'notified' }
          : { kind: 'waiting', notified: [], reason: 'away' };
      }),
    clock,
    random: () => 0,
    logger,
  });
  const stop = new AbortController();
  const ended = limiter.run(stop.signal);
  return {
    limiter,
    lines: logger.lines,
    evaluate: async (stored: ReadonlyMap<string, StoredBudget>) => {
      await limiter.evaluate({ stored, tenants: stored.keys(), isComplete: true });
    },
    passed: async (ms: number) => {
      await clock.advance(ms);
      for (let slice = 0; slice < 20; slice += 1) await new Promise(setImmediate);
    },
    kill: async () => {
      stop.abort();
      await ended;
    },
  };
}

const outside = (): Outside => ({
  ledger: createMemoryLedger(),
  events: new Map(),
  states: new Map(),
});

/** A ledger that fails where it is told to. */
function failing(ledger: Ledger, fails: boolean[]): Ledger {
  return {
    ...ledger,
    writeRecords: async (changes) =>
      fails.shift() === true
        ? { kind: 'failed', cause: 'retryable', message: 'the volume is away' }
        : ledger.writeRecords(changes),
  };
}

test('each threshold is reported once, wherever the process ends or a write fails', async () => {
  const slices = fc.array(
    fc.record({
      nanos: fc.integer({ min: 0, max: 1200 }),
      mishaps: fc.array(fc.constantFrom<Mishap>('notified', 'unreceived', 'unanswered'), {
        maxLength: 4,
      }),
      fails: fc.array(fc.boolean(), { maxLength: 4 }),
      isPatient: fc.boolean(),
    }),
    { minLength: 1, maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(slices, async (lives) => {
      const world = outside();
      let nanos = 0;
      for (const life of lives) {
        nanos = Math.max(nanos, life.nanos);
        const ledger = failing(world.ledger, [...life.fails]);
        const process = startLimiter({ ...world, ledger, mishaps: [...life.mishaps] });
        const stored = new Map([['acme', storedOf(nanos)]]);
        // What cannot be recorded is tried again in the next round.
        await process.evaluate(stored).catch(() => process.evaluate(stored).catch(() => undefined));
        if (life.isPatient) await process.passed(1);
        await process.kill();
      }
      const last = startLimiter(world);
      await last.evaluate(new Map([['acme', storedOf(nanos)]]));
      await last.passed(1);
      await last.kill();
      const reported = [...world.events.values()].map(({ percent }) => percent);
      const reached = BUDGET.thresholds.filter((percent) => nanos >= percent * 10);
      expect(reported.toSorted((a, b) => a - b)).toStrictEqual(reached);
      expect(world.states.get('acme')).toBe(nanos >= 1000 ? 'suspended' : 'active');
      const calls = world.events.size;
      const another = startLimiter(world);
      world.events.clear();
      await another.evaluate(new Map([['acme', storedOf(nanos)]]));
      await another.passed(1);
      await another.kill();
      expect([calls, world.events.size]).toStrictEqual([reached.length, 0]);
    }),
    { numRuns: 100 },
  );
});

test('a destination that has it does not get it again while another is down, across a restart', async () => {
  const world = outside();
  const requested: (readonly string[])[] = [];
  let isDown = true;
  const report: Notify = async (_, reportedTo) => {
    requested.push([...reportedTo]);
    if (!isDown) return { kind: 'notified' };
    return { kind: 'waiting', notified: ['up'], reason: 'down: it does not answer' };
  };
  const first = startLimiter({ ...world, notify: report });
  await first.evaluate(new Map([['acme', storedOf(500)]]));
  await first.passed(1);
  await first.kill();
  expect(first.lines.join()).toContain('not reported yet: down: it does not answer');
  requested.length = 0;
  isDown = false;
  const last = startLimiter({ ...world, notify: report });
  await last.evaluate(new Map([['acme', storedOf(500)]]));
  await last.passed(1);
  await last.kill();
  expect(requested).toStrictEqual([['up']]);
});

test('a threshold that was reported before an upgrade is reported again', async () => {
  const world = outside();
  const first = startLimiter(world);
  await first.evaluate(new Map([['acme', storedOf(500)]]));
  await first.passed(1);
  await first.kill();
  const key = 'budgets/state/acme';
  const older = (await world.ledger.record(key))?.replace('"notified":true', '"told":true');
  expect(older).toContain(`"crossed":[{"percent":50,"at":${NOON},"told":true}]`);
  await world.ledger.writeRecords([{ key, value: older }]);
  world.events.clear();
  const last = startLimiter(world);
  await last.evaluate(new Map([['acme', storedOf(500)]]));
  await last.passed(1);
  await last.kill();
  expect(world.events.size).toBe(0);
});

test('a destination that had a threshold before an upgrade gets it again', async () => {
  const world = outside();
  const requested: (readonly string[])[] = [];
  const notify: Notify = async (_, notifiedTo) => {
    requested.push([...notifiedTo]);
    return { kind: 'waiting', notified: ['up'], reason: 'down: it does not answer' };
  };
  const first = startLimiter({ ...world, notify });
  await first.evaluate(new Map([['acme', storedOf(500)]]));
  await first.passed(1);
  await first.kill();
  const key = 'budgets/state/acme';
  const older = (await world.ledger.record(key))
    ?.replace('"notified":false', '"told":false')
    .replace('"notifiedTo":', '"toldTo":');
  expect(older).toContain(`"told":false,"toldTo":["up"]`);
  await world.ledger.writeRecords([{ key, value: older }]);
  requested.length = 0;
  const last = startLimiter({ ...world, notify });
  await last.evaluate(new Map([['acme', storedOf(500)]]));
  await last.passed(1);
  await last.kill();
  expect(requested[0]).toStrictEqual(['up']);
});

test('a tenant without a budget is let go, and one that is spared is only warned', async () => {
  const world = outside();
  const first = startLimiter(world);
  await first.evaluate(new Map([['acme', storedOf(1000)]]));
  expect(world.states.get('acme')).toBe('suspended');
  expect(first.limiter.stateOf('acme')).toBe('suspended');
  await first.kill();
  const spared = startLimiter({ ...world, isSpared: true });
  await spared.evaluate(new Map([['acme', storedOf(1000)]]));
  expect(world.states.get('acme')).toBe('warning');
  await spared.evaluate(new Map());
  expect(world.states.get('acme')).toBe('active');
  await spared.kill();
});

test('the metric has the time of each threshold from the record, also after a restart', async () => {
  const world = outside();
  const first = startLimiter(world);
  await first.evaluate(new Map([['acme', storedOf(600)]]));
  await first.kill();
  const second = startLimiter(world);
  expect([...second.limiter.reachedAt()]).toStrictEqual([]);
  await second.passed(5_000);
  await second.evaluate(new Map([['acme', storedOf(800)]]));
  expect([...second.limiter.reachedAt()]).toStrictEqual([
    [50, NOON],
    [80, NOON + 5_000],
  ]);
  await second.kill();
});

test('a record that cannot be read is reported, and stops nobody', async () => {
  const world = outside();
  await world.ledger.writeRecords([{ key: 'budgets/state/acme', value: '{"from":1' }]);
  const process = startLimiter(world);
  await process.evaluate(new Map([['acme', storedOf(1000)]]));
  expect(process.lines).toContain(
    'error [budgets] damaged record, ignored: budgets/state/acme: "{\\"from\\":1"',
  );
  expect(world.states.get('acme')).toBe('suspended');
  await process.kill();
});
