import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import type { ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { pod } from '../../metering/meters/testing/objects.ts';
import type { Budget } from '../../model/budget.ts';
import { decimalFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import { StoredSums } from '../usage/testing/stored-sums.ts';
import { at, clockAt, eventsOf, life, pass } from '../../metering/windows/testing/harness.ts';
import { BOOK_PREFIX } from './book-record.ts';
import {
  CPU,
  type StoreWorld,
  type StoreWorldOptions,
  startStoreWorld,
  TENANT,
} from './testing/budget-world.ts';

let directory: string;
let totals: StoredSums;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'budgets-'));
});

afterEach(async () => {
  await totals.close();
  await rm(directory, { recursive: true, force: true });
});

/** Core-hours in a month. */
function cpuBudget(coreSeconds: number): Budget {
  const amount = (BigInt(coreSeconds) * 1_000_000_000n) / 3_600n;
  return {
    counts: { kind: 'metric', metric: CPU },
    amount,
    period: { kind: 'month' },
    thresholds: [],
    atLimit: 'warn',
  };
}

/** With the sums of files. */
async function start(options: Omit<StoreWorldOptions, 'totals'>): Promise<StoreWorld> {
  const { ledger, clock } = options;
  totals = new StoredSums(ledger, directory, { clock, logger: createCapturingLogger() });
  return startStoreWorld({ ...options, totals });
}

/** Each window is rounded once, to a nano-unit. */
function expectSeconds(nanos: bigint, seconds: number): void {
  const off = nanos * 3_600n - BigInt(seconds) * 1_000_000_000n;
  expect(off < 0n ? -off : off).toBeLessThan(5 * 3_600);
}

/**
 * The limit a moment later: accounts are rebuilt from files, however long a busy machine takes to
 * read them.
 */
async function limit(world: StoreWorld, clock: ManualClock): Promise<bigint | undefined> {
  await pass(clock, 1);
  return world.controller.list()[0]?.limit;
}

async function storedNanos(ledger: Ledger): Promise<bigint> {
  const events = (await eventsOf(ledger)).filter(({ metric }) => metric === CPU);
  return events.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
}

describe('the account of a tenant', () => {
  test('has what the closed windows came to, each of them once', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(600) });
    await pass(clock, 20);
    for (let second = 1; second <= 200; second += 1) {
      const stored = await storedNanos(ledger);
      await pass(clock, 1);
      const { used } = world.state();
      expect(used >= stored && used <= (await storedNanos(ledger))).toBe(true);
    }
    expectSeconds(world.state().used, 180);
  });

  test('says when the budget is used up at the rate of the newest window, and at no rate where nothing was used in it', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(3600) });
    await pass(clock, 20 + 70);
    const near = (seconds: number): void => {
      const usedUpAt = world.state().usedUpAt() ?? Number.NaN;
      expect(Math.abs(usedUpAt - at(seconds))).toBeLessThan(10);
    };
    near(3600);
    await pass(clock, 15);
    await world.see(pod({ ...life, phase: 'Succeeded', finishedAt: at(80) }));
    await pass(clock, 40);
    // A third of a core in the window from 60 to 120.
    near(120 + (3600 - 80) * 3);
    await pass(clock, 60);
    expect(world.state().usedUpAt()).toBeUndefined();
    await pass(clock, 15);
    await world.see(pod({ ...life, name: 'q', createdAt: at(195), startedAt: at(200) }));
    await pass(clock, 105);
    near(200 + 3600 - 80);
  });

  test('is marked when nothing is left at the rate of the newest window, and let go where less was used', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(90) });
    await pass(clock, 20 + 70);
    await world.see(pod({ ...life, phase: 'Succeeded', finishedAt: at(65) }));
    await pass(clock, 19);
    expect(world.state().state).toBe('active');
    await pass(clock, 2);
    expect(world.state().state).toBe('warning');
    // In the second window it ran for five seconds: at that rate nothing would be left in five
    // minutes.
    await pass(clock, 34);
    expect(world.state().state).toBe('warning');
    await pass(clock, 60);
    expect(world.state().state).toBe('active');
  });

  test('comes to ledger × price when everything is closed', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const amount = 10n ** 21n;
    const counts = { kind: 'money', currency: 'EUR' } as const;
    const budget: Budget = { ...cpuBudget(0), counts, amount };
    const unpriced = { ...life, containers: [{ cpu: '1', memory: '1Gi' }] };
    await using world = await start({ clock, ledger, budget, pods: [pod(unpriced)] });
    await pass(clock, 20 + 100);
    await world.see(pod({ ...unpriced, phase: 'Succeeded', finishedAt: at(97) }));
    await pass(clock, 100);
    const stored = await storedNanos(ledger);
    expect(stored > 0n).toBe(true);
    expect(world.state().used).toBe(stored * 36n * 10n ** 12n);
    expect(world.state().uncounted).toStrictEqual(['tenant_memory_gb_hours']);
  });

  test('whose record is damaged shows a balance as unused', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const { counts } = cpuBudget(0);
    await ledger.writeRecords([{ key: `${BOOK_PREFIX}${TENANT}/${CPU}`, value: '{"tenant"' }]);
    await using world = await start({ clock, ledger, budget: cpuBudget(600) });
    await world.credits.add({ tenant: TENANT, key: 'one', amount: decimalFromNanos(1n), counts });
    await pass(clock, 20 + 70);
    expect(world.controller.prepaidUsed(TENANT, counts)).toBeUndefined();
    const other = { kind: 'metric', metric: 'tenant_gpu_hours' } as const;
    expect(world.controller.prepaidUsed(TENANT, other)).toBe(0n);
  });

  test('is the same after a restart', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const budget = cpuBudget(3600);
    let before: bigint;
    {
      await using world = await start({ clock, ledger, budget });
      await pass(clock, 20 + 130);
      before = world.state().used;
      await totals.close();
    }
    await using world = await start({ clock, ledger, budget });
    await pass(clock, 3);
    expect(world.state().used).toBe(before);
    // Before it has closed a window itself.
    expect(Math.abs((world.state().usedUpAt() ?? 0) - at(3600))).toBeLessThan(10);
  });

  test('follows usage that is pushed in, and a budget that changes', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(3600) });
    await pass(clock, 20 + 70);
    const before = world.state().used;
    await pass(clock, 120);
    expectSeconds(world.state().used - before, 120);
    world.settings.setPolicy({ defaultBudget: cpuBudget(60) });
    await expect.poll(() => limit(world, clock)).toBe((60n * 1_000_000_000n) / 3_600n);
    expect(world.state().usedUpAt()).toBe(clock.now());
    world.settings.setPolicy(undefined);
    await expect.poll(() => limit(world, clock)).toBeUndefined();
  });
});

describe('after a stop', () => {
  interface Restart {
    readonly stopSeconds: number;
    readonly coreSeconds: number;
    readonly pods?: readonly RawObject[];
    readonly windowsOf?: (ledger: Ledger) => Ledger;
  }

  /** Closes the first window, is killed 75 s after its start, and starts again. */
  async function restart({ stopSeconds, coreSeconds, pods, windowsOf }: Restart) {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const budget: Budget = { ...cpuBudget(coreSeconds), thresholds: [100], atLimit: 'suspend' };
    {
      await using world = await start({ clock, ledger, budget });
      await pass(clock, 20 + 75);
      expect(world.process.collector.closedUntil()).toBe(at(60));
      await totals.close();
    }
    await clock.advance(stopSeconds * 1000);
    const world = await start({ clock, ledger, windowsLedger: windowsOf?.(ledger), budget, pods });
    return { world, clock };
  }

  const acted = (world: StoreWorld): readonly unknown[] => [world.state().state, world.reported];
  const NOT_ACTED = ['active', []];
  const ACTED = ['suspended', [100]];

  test.each([
    [3600, 600],
    // The second window is due at the very start.
    [48, 110],
  ])(
    'of %i s, a tenant whose pod ended meanwhile is suspended, and its customer gets a report',
    async (stopSeconds, coreSeconds) => {
      const pods = [pod({ ...life, phase: 'Succeeded', finishedAt: at(80) })];
      const { world, clock } = await restart({ stopSeconds, coreSeconds, pods });
      await using _ = world;
      for (let second = 0; second < 130; second += 1) {
        expect(acted(world)).toStrictEqual(NOT_ACTED);
        await pass(clock, 1);
      }
      expectSeconds(world.state().used, 80);
    },
  );

  test('of an hour, a tenant whose pod went on is never suspended', async () => {
    const { world, clock } = await restart({ stopSeconds: 3600, coreSeconds: 600 });
    await using _ = world;
    await pass(clock, 5);
    expect(acted(world)).toStrictEqual(ACTED);
  });

  test.each([
    [10, 80],
    // The second window has ended and is not due.
    [46, 118],
  ])(
    'of %i s within a window, a budget that was used up meanwhile waits for its end',
    async (stopSeconds, coreSeconds) => {
      const { world, clock } = await restart({ stopSeconds, coreSeconds });
      await using _ = world;
      await pass(clock, 1);
      expect(world.process.collector.closedUntil()).toBe(-Infinity);
      expect(acted(world)).toStrictEqual(ACTED);
    },
  );

  test('a suspended tenant is active until the missed windows are closed', async () => {
    const windowsOf = (ledger: Ledger): Ledger => withRoom(ledger, 0);
    const { world, clock } = await restart({ stopSeconds: 3600, coreSeconds: 30, windowsOf });
    await using _ = world;
    for (let second = 0; second < 10; second += 1) {
      await pass(clock, 1);
      expect(world.state().state).toBe('suspended');
    }
  });

  test.each<[string, Restart]>([
    [
      'has no room for all missed windows',
      { stopSeconds: 3600, coreSeconds: 1800, windowsOf: (ledger) => withRoom(ledger, 10) },
    ],
    [
      'fails when the only missed window is appended',
      {
        stopSeconds: 70,
        coreSeconds: 140,
        windowsOf: (ledger) => ({
          ...ledger,
          append: async () => ({ kind: 'failed', cause: 'retryable', message: 'away' }),
        }),
      },
    ],
  ])('budgets wait for ever, or not at all, for a ledger that %s', async (_ledger, given) => {
    const { world, clock } = await restart(given);
    await using _ = world;
    await pass(clock, 30);
    // Causes a pass, so that none is due by itself when the wait ends.
    const { counts } = cpuBudget(0);
    await world.credits.add({ tenant: TENANT, key: 'one', amount: decimalFromNanos(1n), counts });
    await pass(clock, 865);
    expect(acted(world)).toStrictEqual(NOT_ACTED);
    await pass(clock, 10);
    expect(acted(world)).toStrictEqual(ACTED);
  });

  /** A ledger whose volume has room for so many more windows. */
  function withRoom(ledger: Ledger, windows: number): Ledger {
    let left = windows;
    return {
      ...ledger,
      append: (batch) => {
        left -= 1;
        return ledger.append(batch);
      },
      stats: () => {
        const stats = ledger.stats();
        const level = left > 0 ? stats.disk.level : 'collector-paused';
        return { ...stats, disk: { ...stats.disk, level } };
      },
    };
  }
});

describe('an access check', () => {
  const HOUR = 1_000_000_000n;
  const window = { start: at(0), end: at(60) };
  const open = [{ metric: CPU, unit: 'core-hours', nanos: HOUR, window }];

  test('has no answer before the accounts are built, and one of now afterwards', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(7200) });
    expect(world.controller.staleMs).toBe(0);
    await pass(clock, 20 + 70);
    // Longer than the controller waits for more changes.
    await expect.poll(() => pass(clock, 1).then(() => world.controller.staleMs)).toBe(0);
    expect(world.controller.position).toBe(ledger.head());
  });

  test('says how old it is while the ledger cannot be read', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    let isBroken = false;
    const unreadable: Ledger = Object.create(ledger, {
      read: {
        value: async (...range: Parameters<Ledger['read']>) =>
          isBroken
            ? { kind: 'failed', cause: 'retryable', message: 'away' }
            : ledger.read(...range),
      },
    });
    const budget = cpuBudget(7200);
    await using world = await start({ clock, ledger: unreadable, windowsLedger: ledger, budget });
    await pass(clock, 20 + 30);
    isBroken = true;
    await pass(clock, 60);
    expect(world.controller.staleMs).toBeGreaterThan(1000);
    isBroken = false;
    await expect.poll(() => pass(clock, 1).then(() => world.controller.staleMs)).toBe(0);
  });

  test.each([
    ['nothing open', [], 'suspend', undefined, false],
    ['less than is left', open, 'suspend', undefined, false],
    ['all that is left', [...open, ...open], 'suspend', undefined, true],
    ['all, with an amount as grace', [...open, ...open], 'suspend', HOUR, false],
    ['the grace too', [...open, ...open, ...open], 'suspend', HOUR, true],
    ['all, of a budget that only warns', [...open, ...open], 'warn', undefined, false],
  ] as const)('counts requests that are not in the ledger yet: %s', async (...given) => {
    const [, requests, atLimit, amount, isSpent] = given;
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const grace = amount === undefined ? undefined : ({ kind: 'amount', amount } as const);
    const budget: Budget = { ...cpuBudget(7200), atLimit, grace };
    await using world = await start({ clock, ledger, budget, pods: [] });
    const left = world.controller.left(TENANT, requests);
    expect(left).toMatchObject({ limit: 2n * HOUR, used: BigInt(requests.length) * HOUR, isSpent });
    expect(world.controller.left('nobody', requests)).toBeUndefined();
    expect(world.state().used).toBe(0n);
  });

  test('leaves a grace of time to the budget itself', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const budget: Budget = {
      ...cpuBudget(7200),
      atLimit: 'suspend',
      grace: { kind: 'time', ms: 60_000 },
    };
    await using world = await start({ clock, ledger, budget, pods: [] });
    expect(world.controller.left(TENANT, [...open, ...open])?.isSpent).toBe(false);
  });
});
