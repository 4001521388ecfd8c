import { expect, test } from 'vitest';
import type { WriteOutcome } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { Tenant } from '../../model/tenant.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import { readPlanHistories } from './plan-history.ts';
import { PlanRecorder } from './plan-recorder.ts';

function rig(ledger = createMemoryLedger()) {
  const state = {
    known: true,
    now: Date.parse('2026-11-21T09:00:00Z'),
    tenants: [] as Pick<Tenant, 'id' | 'plan' | 'planChange'>[],
    failure: undefined as WriteOutcome | undefined,
    writes: 0,
    sleep: async (): Promise<void> => undefined,
  };
  const logger = createMemoryLogger();
  const store = new PlanRecorder({
    ledger: {
      records: (prefix) => ledger.records(prefix),
      writeRecords: async (changes) => {
        state.writes += 1;
        return state.failure ?? ledger.writeRecords(changes);
      },
    },
    known: () => state.known,
    tenants: () => state.tenants,
    defaultPlan: () => 'bronze',
    clock: { now: () => state.now, sleep: () => state.sleep() },
    logger,
  });
  const stored = async () => Object.fromEntries(await readPlanHistories(ledger));
  return { state, planStore: store, kept: stored, logger, ledger };
}

test('a change of plan is forgotten, or one that is no news is written', async () => {
  const { state, planStore: store, kept: stored } = rig();
  state.tenants = [{ id: 'acme' }, { id: 'burst', plan: 'silver' }];
  await store.poll();
  await store.poll();
  expect(state.writes).toBe(1);
  state.now += 86_400_000;
  state.tenants = [
    { id: 'acme', plan: 'gold' },
    { id: 'burst', plan: 'gold', planChange: 'period-end' },
  ];
  await store.poll();
  await store.poll();
  expect(state.writes).toBe(2);
  expect(await stored()).toStrictEqual({
    acme: [
      ['', 'bronze'],
      ['2026-11-22', 'gold'],
    ],
    burst: [
      ['', 'silver'],
      ['2026-12-01', 'gold'],
    ],
  });
});

test('a tenant that leaves takes the plan along that its last month is priced by', async () => {
  const { state, planStore: store, kept: stored } = rig();
  state.tenants = [{ id: 'acme', plan: 'gold' }];
  await store.poll();
  state.tenants = [];
  await store.poll();
  expect(await stored()).toStrictEqual({ acme: [['', 'gold']] });
});

test('a restart makes today’s plan that of all times', async () => {
  const before = rig();
  before.state.tenants = [{ id: 'acme', plan: 'silver' }];
  await before.planStore.poll();
  const { state, planStore: store, kept: stored } = rig(before.ledger);
  state.tenants = [{ id: 'acme', plan: 'gold' }];
  await store.poll();
  expect(await stored()).toStrictEqual({
    acme: [
      ['', 'silver'],
      ['2026-11-21', 'gold'],
    ],
  });
});

test('nothing is written while nobody knows who is metered', async () => {
  const { state, planStore: store } = rig();
  state.known = false;
  state.tenants = [{ id: 'acme' }];
  await store.poll();
  expect(state.writes).toBe(0);
});

test('a full volume loses a change of plan, or fills the log', async () => {
  const { state, planStore: store, kept: stored, logger } = rig();
  state.tenants = [{ id: 'acme', plan: 'gold' }];
  state.failure = { kind: 'failed', cause: 'full', message: 'no room: ledger' };
  await store.poll();
  await store.poll();
  expect(logger.lines).toStrictEqual([
    'warn [http] the plans of tenants could not be recorded: no room: ledger',
  ]);
  state.failure = undefined;
  await store.poll();
  expect(await stored()).toStrictEqual({ acme: [['', 'gold']] });
});

test('a tenant that comes after the start has no plan', async () => {
  const { state, planStore: store, kept: stored } = rig();
  const stop = new AbortController();
  state.sleep = async () => {
    if (state.tenants.length > 0) stop.abort();
    state.tenants = [{ id: 'acme', plan: 'gold' }];
  };
  await store.run(stop.signal);
  expect(await stored()).toStrictEqual({ acme: [['', 'gold']] });
});
