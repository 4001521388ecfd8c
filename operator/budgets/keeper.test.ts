import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { projectPod } from '../observation/pod.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import type { ManualClock } from '../kubernetes/testing/manual-clock.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { cluster, pod } from '../metering/testing/objects.ts';
import type { Budget } from '../model/budget.ts';
import { nanosFromDecimal } from '../model/decimal.ts';
import { openSumsStore, type SumsStore } from '../usage/sums-store.ts';
import { createUsageTotals } from '../usage/usage-totals.ts';
import { at, clockAt, eventsOf, life, pass, running } from '../windows/testing/harness.ts';
import type { BudgetKeeper } from './keeper.ts';
import {
  CPU,
  type KeeperWorld,
  type KeeperWorldOptions,
  startKeeperWorld,
} from './testing/keeper-world.ts';

const CORE_SECOND = 1_000_000_000n / 3_600n;

let directory: string;
let store: SumsStore;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'budgets-'));
});

afterEach(async () => {
  await store.close();
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
async function start(options: Omit<KeeperWorldOptions, 'totals'>): Promise<KeeperWorld> {
  const { ledger, clock } = options;
  store = await openSumsStore(directory, ledger.stats().ledgerId);
  const totals = createUsageTotals({ ledger, store, clock, logger: createCapturingLogger() });
  return startKeeperWorld({ ...options, totals });
}

/** Each window is rounded once, to a nano-unit. */
function expectSeconds(nanos: bigint, seconds: number): void {
  const off = nanos * 3_600n - BigInt(seconds) * 1_000_000_000n;
  expect(off < 0n ? -off : off).toBeLessThan(5 * 3_600);
}

/** The limit a moment later: accounts are made anew from files, however long a busy machine takes to read them. */
async function limit(world: KeeperWorld, clock: ManualClock): Promise<bigint | undefined> {
  await pass(clock, 1);
  return world.keeper.list()[0]?.limit;
}

async function storedNanos(ledger: Ledger): Promise<bigint> {
  const events = (await eventsOf(ledger)).filter(({ metric }) => metric === CPU);
  return events.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
}

describe('the account of a tenant', () => {
  test('has what goes on at once, and counts no window twice when it is closed', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(600) });
    await pass(clock, 20);
    for (let second = 1; second <= 200; second += 1) {
      await pass(clock, 1);
      const most = BigInt(second);
      const { used } = world.standing();
      expect(used <= most * CORE_SECOND + most).toBe(true);
    }
    await pass(clock, 30);
    const stored = await storedNanos(ledger);
    const rest = world.standing().used - stored;
    expectSeconds(rest, 50);
  });

  test('says when the budget is used up, and anew when a pod ends and another begins', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(3600) });
    await pass(clock, 20 + 70);
    const near = (seconds: number): void => {
      const usedUpAt = world.standing().usedUpAt() ?? Number.NaN;
      expect(Math.abs(usedUpAt - at(seconds))).toBeLessThan(10);
    };
    near(3600);
    await pass(clock, 15);
    await world.see(pod({ ...life, phase: 'Succeeded', finishedAt: at(80) }));
    await pass(clock, 1);
    expect(world.standing().usedUpAt()).toBeUndefined();
    await pass(clock, 20);
    await world.see(pod({ ...life, name: 'q', createdAt: at(95), startedAt: at(100) }));
    await pass(clock, 1);
    near(100 + 3600 - 80);
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
    expect(world.standing().used).toBe(stored * 36n * 10n ** 12n);
    expect(world.standing().uncounted).toStrictEqual(['tenant_memory_gb_hours']);
  });

  test('is the same after a restart', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const budget = cpuBudget(3600);
    let before: bigint;
    {
      await using world = await start({ clock, ledger, budget });
      await pass(clock, 20 + 130);
      before = world.standing().used;
      await store.close();
    }
    await using world = await start({ clock, ledger, budget });
    await pass(clock, 3);
    expectSeconds(world.standing().used - before, 3);
  });

  test('is measured for the pods that change, not for events and ends of windows', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const known = [cluster('a'), cluster('b', {}, { namespace: 'tenant-b' })];
    const other = pod({ ...life, name: 'other' });
    const pods = [running, other];
    await using world = await start({ clock, ledger, budget: cpuBudget(3600), known, pods });
    await pass(clock, 20 + 70);
    world.measured.length = 0;
    for (let pushed = 0; pushed < 5; pushed += 1) {
      const event = testEvent({ id: `pushed-${pushed}`, tenant: 'tenant-tenant-b-b' });
      await ledger.append({ events: [event] });
      await pass(clock, 2);
    }
    await pass(clock, 120);
    expect(world.measured).toStrictEqual([]);
    const ended = pod({ ...life, name: 'other', phase: 'Succeeded', finishedAt: at(215) });
    await world.see(ended);
    await pass(clock, 2);
    const { uid } = projectPod(ended) ?? {};
    expect(world.measured).toStrictEqual([['tenant-a', uid]]);
  });

  test('is judged where its pods change all the time, even while it is measured', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const onMeasured = (keeper: BudgetKeeper): void =>
      keeper.changed({ namespace: 'tenant-a', uid: projectPod(running)?.uid ?? '' });
    await using world = await start({ clock, ledger, budget: cpuBudget(60), onMeasured });
    await pass(clock, 20 + 59);
    expect(world.standing().state).toBe('active');
    await pass(clock, 3);
    expect(world.standing().state).toBe('warning');
  });

  test('follows usage that is pushed in, and a budget that changes', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    await using world = await start({ clock, ledger, budget: cpuBudget(3600) });
    await pass(clock, 20 + 70);
    const before = world.standing().used;
    await pass(clock, 120);
    expectSeconds(world.standing().used - before, 120);
    world.settings.setPolicy({ defaultBudget: cpuBudget(60) });
    await expect.poll(() => limit(world, clock)).toBe((60n * 1_000_000_000n) / 3_600n);
    expect(world.standing().usedUpAt()).toBe(clock.now());
    world.settings.setPolicy(undefined);
    await expect.poll(() => limit(world, clock)).toBeUndefined();
  });
});
