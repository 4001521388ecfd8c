import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { LevelRollups } from '../../ledger/leveldb/level-rollups.ts';
import { createFleetDatabase } from '../../ledger/postgres/fleet-database.ts';
import { HubLease } from '../../ledger/postgres/hub-lease.ts';
import { openPostgresLedger } from '../../ledger/postgres/open-postgres-ledger.ts';
import type { Rollups } from '../../ledger/rollups.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { silentLogger } from '../../ledger/testing/level-ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { postgresOptions } from '../../ledger/testing/postgres-options.ts';
import type { UsageEvent } from '../../model/event.ts';
import { override } from '../../model/override.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { CLOSINGS } from './sum-updater.ts';
import { SumsStore } from './sums-store.ts';
import { StoredSums } from './testing/stored-sums.ts';
import { UsageSums, type UsageRow } from './usage-sums.ts';
import type { UsageTotals } from './usage-totals.ts';

const START = Date.UTC(2026, 10, 20);
const RANGE = { from: START, to: START + 86_400_000 };
const surroundings = {
  clock: { ...systemClock, now: () => START + 90_000_000 },
  logger: silentLogger,
};
const never = new AbortController().signal;

const postgres = usePostgres();
let directory: string;
const closing: (() => Promise<void>)[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stored-sums-'));
});

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  await rm(directory, { recursive: true, force: true });
});

function eventOf(number: number): UsageEvent {
  const windowStart = START + (number % 300) * 60_000;
  return testEvent({ id: `e-${number}`, windowStart, tenant: `t-${number % 3}` });
}

async function addTo(totals: UsageTotals): Promise<readonly UsageRow[]> {
  const sums = new UsageSums(['tenant', 'hour'], 10_000);
  const query = { range: RANGE, filter: () => true, hourly: true, signal: never };
  expect(await totals.addTo(sums, query)).toMatchObject({ kind: 'added' });
  return sums.rows();
}

async function scanned(ledger: Ledger): Promise<readonly UsageRow[]> {
  const sums = new UsageSums(['tenant', 'hour'], 10_000);
  for await (const { event } of ledger.scan(RANGE.from, RANGE.to)) sums.add(event);
  return sums.rows();
}

async function openStream(database: LedgerDatabase, source = 'berlin') {
  const opened = await openPostgresLedger(postgresOptions(database, { source, region: source }));
  if (opened.kind === 'failed') throw new Error(opened.message);
  closing.push(() => opened.ledger.close());
  return opened;
}

function levelRollups(name = 'level'): Rollups {
  const rollups = new LevelRollups(join(directory, name));
  closing.push(() => rollups.close());
  return rollups;
}

type Mishap = 'unwritten' | 'unanswered';

/** Rollups of which a write can be told to fail, before or after it is stored. */
function fragile(rollups: Rollups) {
  const fault: { due: Mishap | undefined; after: number } = { due: undefined, after: 0 };
  const strike = async (write: () => Promise<void>): Promise<void> => {
    const { due } = fault;
    if (due === undefined || fault.after > 0) {
      fault.after -= 1;
      return write();
    }
    fault.due = undefined;
    if (due === 'unanswered') await write();
    throw new Error('killed');
  };
  const put: Rollups['put'] = (texts) => strike(() => rollups.put(texts));
  const drop: Rollups['drop'] = (from, to) => strike(() => rollups.drop(from, to));
  return { fault, rollups: override<Rollups>(rollups, { put, drop }) };
}

const anyStep = fc.record({
  events: fc.integer({ min: 1, max: 12 }),
  work: fc.constantFrom('sum', 'rebuild', 'sum', 'nothing'),
  mishap: fc.option(fc.constantFrom<Mishap>('unwritten', 'unanswered'), { nil: undefined }),
  after: fc.nat(2),
});

describe.each<[storage: string, open: () => Promise<Rollups>, runs: number]>([
  ['LevelDB', async () => levelRollups(), 60],
  [
    'PostgreSQL',
    async () => (await openStream(await postgres.server().createDatabase())).rollups,
    25,
  ],
])('in %s', (_storage, open, runs) => {
  test('an event counts twice, or not at all, where a process is killed before or after any write', async () => {
    const { fault, rollups } = fragile(await open());
    let count = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 8 }), async (steps) => {
        const ledger = createMemoryLedger();
        await new StoredSums(ledger, rollups, surroundings).updater.rebuild('another run');
        for (const { events, work, mishap, after } of steps) {
          const next = Array.from({ length: events }, () => eventOf((count += 1)));
          await ledger.append({ events: next });
          // Each is a process that knows nothing of those before it.
          const { updater } = new StoredSums(ledger, rollups, surroundings);
          Object.assign(fault, { due: mishap, after });
          const done = work === 'sum' ? updater.catchUp(never) : undefined;
          await (work === 'rebuild' ? updater.rebuild('wanted') : done)?.catch(() => undefined);
          fault.due = undefined;
          const reader = new StoredSums(ledger, rollups, surroundings);
          const sums = new UsageSums(['tenant', 'hour'], 10_000);
          const query = { range: RANGE, filter: () => true, hourly: true, signal: never };
          const outcome = await reader.addTo(sums, query);
          // After a kill while all is forgotten, what is left is not shown but made again.
          const isAgain = outcome.kind === 'rebuilding' && work === 'rebuild';
          const expected = isAgain ? [] : await scanned(ledger);
          expect(sums.rows()).toStrictEqual(expected);
        }
        const last = new StoredSums(ledger, rollups, surroundings);
        await last.catchUp(never);
        expect(await last.store.progress()).toBe(ledger.head());
        expect(await addTo(last)).toStrictEqual(await scanned(ledger));
      }),
      { numRuns: runs, endOnFailure: true },
    );
  });

  test('sums are read while others are added, and are of two moments', async () => {
    const rollups = await open();
    const ledger = createMemoryLedger();
    await ledger.append({ events: [eventOf(0), eventOf(60)] });
    const totals = new StoredSums(ledger, rollups, surroundings);
    await totals.catchUp(never);
    await ledger.append({ events: [eventOf(1), eventOf(61)] });
    const seen = await totals.store.reading(async (sums) => {
      await totals.catchUp(never);
      const read = await Array.fromAsync(sums.read('hour', '2026-11-20T01', undefined));
      return { progress: sums.progress, tenants: read.map(([tenant]) => tenant) };
    });
    expect(seen).toEqual({ progress: 2, tenants: ['t-0'] });
    expect(await totals.store.progress()).toBe(4);
  });

  test('sums that a database takes over from files are lost, or there twice, when it is killed meanwhile', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: Array.from({ length: 300 }, (_, index) => eventOf(index)) });
    const old = levelRollups('old');
    await new StoredSums(ledger, old, surroundings).catchUp(never);
    const { fault, rollups } = fragile(await open());
    const adopt = () => new SumsStore(rollups, ledger.stats().ledgerId).adopt(old);
    for (const after of [0, 1, 2, 3, 4]) {
      Object.assign(fault, { due: 'unanswered', after });
      await adopt().catch(() => undefined);
    }
    fault.due = undefined;
    await adopt();
    const totals = new StoredSums(ledger, rollups, surroundings);
    expect(await totals.store.progress()).toBe(300);
    expect(await addTo(totals)).toStrictEqual(await scanned(ledger));
    await ledger.append({ events: [eventOf(301)] });
    await totals.catchUp(never);
    // It has sums of its own by now.
    expect(await adopt()).toBe(false);
    expect(await addTo(totals)).toStrictEqual(await scanned(ledger));
  });
});

test('the closings of months are read although no event is new', async () => {
  const memory = createMemoryLedger();
  const read: string[] = [];
  const ledger: Ledger = {
    ...memory,
    records: (prefix) => {
      read.push(prefix);
      return memory.records(prefix);
    },
  };
  const totals = new StoredSums(ledger, levelRollups(), surroundings);
  await totals.catchUp(never);
  expect(read).toStrictEqual([]);
  await ledger.append({ events: [eventOf(1)] });
  await totals.catchUp(never);
  await totals.catchUp(never);
  expect(read).toStrictEqual([CLOSINGS]);
});

describe('in a database', () => {
  test('the next leader makes again what is stored, and the one before still writes', async () => {
    const database = await postgres.server().createDatabase();
    const first = await openStream(database);
    await first.ledger.append({ events: [eventOf(1), eventOf(2)] });
    const before = new StoredSums(first.ledger, first.rollups, surroundings);
    await before.catchUp(never);
    const next = await openStream(database);
    const totals = new StoredSums(next.ledger, next.rollups, surroundings);
    expect(await totals.store.progress()).toBe(2);
    await next.ledger.append({ events: [eventOf(3)] });
    await expect(before.store.clear()).rejects.toThrow('another');
    await totals.catchUp(never);
    expect(await addTo(totals)).toStrictEqual(await scanned(next.ledger));
  });

  test('a hub sums by itself what the operator of a stream has summed, or writes it', async () => {
    const database = await postgres.server().createDatabase();
    const { ledger, rollups } = await openStream(database);
    await ledger.append({ events: [eventOf(1), eventOf(2)] });
    await new StoredSums(ledger, rollups, surroundings).catchUp(never);
    const options = postgresOptions(database, { retentionMs: 86_400_000 });
    const fleet = createFleetDatabase(options);
    await fleet.streams();
    const done = new AbortController();
    const led = Promise.withResolvers<number>();
    await new HubLease({ ...options, owner: 'hub' }).run(done.signal, async (epoch) => {
      led.resolve(epoch);
      done.abort();
    });
    const opened = await fleet.open({ source: 'berlin', region: 'berlin' }, await led.promise);
    if (opened.kind === 'failed') throw new Error(opened.message);
    closing.push(() => opened.ledger.close());
    const totals = new StoredSums(opened.ledger, opened.rollups, surroundings);
    expect(await totals.store.progress()).toBe(2);
    expect(await addTo(totals)).toStrictEqual(await scanned(ledger));
    await expect(totals.store.clear()).rejects.toThrow('the operator of the stream writes them');
  });

  test('a hub fails at the stream of an operator of an earlier release, which stores no sums there', async () => {
    const database = await postgres.server().createDatabase();
    const { ledger, rollups } = await openStream(database);
    await ledger.append({ events: [eventOf(1), eventOf(2)] });
    await postgres.server().query('drop table meterfeed_berlin.rollup', database.name);
    const totals = new StoredSums(ledger, rollups, surroundings);
    expect(await totals.store.progress()).toBe(0);
    expect(await addTo(totals)).toStrictEqual(await scanned(ledger));
  });
});
