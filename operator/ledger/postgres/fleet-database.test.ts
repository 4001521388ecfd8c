import { describe, expect, test } from 'vitest';
import type { Logger } from '../../telemetry/logger.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Customer } from '../fleet.ts';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';
import { createFleetDatabase } from './fleet-database.ts';
import { HubLease } from './hub-lease.ts';

const used = usePostgres();
const DAY_MS = 86_400_000;
const BERLIN = { source: 'berlin', region: 'eu-1' };

async function emptyFleet(logger: Logger = silentLogger) {
  const database = await used.server().createDatabase();
  const fleet = createFleetDatabase({
    database,
    durability: 'storage',
    retentionMs: 86_400_000,
    clock: systemClock,
    logger,
  });
  /** Leads for a moment as another process; returns its epoch. */
  const lead = async (owner: string): Promise<number> => {
    const lease = new HubLease({ database, owner, clock: systemClock, logger: silentLogger });
    const done = new AbortController();
    let led = 0;
    await lease.run(done.signal, async (epoch) => {
      led = epoch;
      done.abort();
    });
    return led;
  };
  const open = async (epoch: number): Promise<Ledger> => {
    const opened = await fleet.open(BERLIN, epoch);
    if (opened.kind === 'failed') throw new Error(opened.message);
    return opened.ledger;
  };
  return { database, fleet, lead, open };
}

const ACME: Customer = { fingerprint: 'acme', streams: ['berlin'] };

describe('the streams of a database', () => {
  test('are found by a hub that was there before any meter, and opened without taking one over', async () => {
    const { database, fleet, lead, open } = await emptyFleet();
    expect(await fleet.streams()).toEqual([]);
    const epoch = await lead('hub-1');
    const meter = await openTestStream(database, BERLIN);
    const other = await openTestStream(database, { source: 'paris', region: 'eu-2' });
    expect(await fleet.streams()).toEqual([BERLIN, { source: 'paris', region: 'eu-2' }]);
    const ledger = await open(epoch);
    expect(ledger.stats().ledgerId).toBe(meter.stats().ledgerId);
    const records = [
      { key: 'fleet/report', value: 'v' },
      { key: 'journal/state', value: 'of the operator alone' },
    ];
    await meter.append({ events: [testEvent()], records, windowEnd: 60_000 });
    await ledger.changed(0, AbortSignal.timeout(10_000));
    expect(ledger.stats()).toMatchObject({ sequence: 1, lastWindowEnd: 60_000 });
    expect(await ledger.read(0, 10)).toMatchObject({ events: [{ event: testEvent() }] });
    expect(await ledger.find(testEvent().id)).toEqual(testEvent());
    expect(await ledger.record('fleet/report')).toBe('v');
    expect(await ledger.record('journal/state')).toBeUndefined();
    expect(await Array.fromAsync(ledger.records('fleet/'))).toEqual([['fleet/report', 'v']]);
    expect((await ledger.verify()).errors).toEqual([]);
    for (const opened of [ledger, meter, other]) await opened.close();
  });

  test('of a database that is not there are requested with its name', async () => {
    const { database } = await emptyFleet();
    const fleet = createFleetDatabase({
      database: { ...database, port: 1 },
      durability: 'storage',
      retentionMs: 86_400_000,
      clock: systemClock,
      logger: silentLogger,
    });
    await expect(fleet.streams()).rejects.toThrow('127.0.0.1:1/');
  });

  test('with equal REGIONs are left out, and named in the log', async () => {
    const lines: string[] = [];
    const { database, fleet } = await emptyFleet({
      ...silentLogger,
      error: (line) => void lines.push(line),
    });
    for (const source of ['berlin', 'paris', 'rome']) {
      const region = source === 'rome' ? 'it' : 'eu-1';
      await (await openTestStream(database, { source, region })).close();
    }
    expect(await fleet.streams()).toEqual([{ source: 'rome', region: 'it' }]);
    expect(lines).toEqual([expect.stringMatching(/REGION.*"eu-1".*berlin, paris/)]);
  });

  test("keep what the hub has not delivered, and two streams' names do not mix", async () => {
    const { database, lead, open, fleet } = await emptyFleet();
    const clock = createStepClock(TEST_WINDOW_START);
    const options = { clock, retentionMs: DAY_MS };
    const meter = await openTestStream(database, { ...BERLIN, ...options });
    const other = await openTestStream(database, { source: 'paris', region: 'eu-2', ...options });
    for (const one of [meter, other])
      await one.append({ events: testWindow(TEST_WINDOW_START, 3) });
    const epoch = await lead('hub-1');
    const ledger = await open(epoch);
    const opened = await fleet.open({ source: 'paris', region: 'eu-2' }, epoch);
    if (opened.kind === 'failed') throw new Error(opened.message);
    await ledger.commitCursor('lago', 2, { records: [{ key: 'delivery/lago/state', value: 's' }] });
    await opened.ledger.commitCursor('lago', 3);
    expect(await opened.ledger.record('delivery/lago/state')).toBeUndefined();
    expect(await ledger.record('delivery/lago/state')).toBe('s');
    expect(await Array.fromAsync(ledger.records('delivery/'))).toHaveLength(1);
    expect(ledger.cursors()).toMatchObject([
      { destination: 'lago', sequence: 2, windowEnd: testEvent().window_end },
    ]);
    clock.pass(30 * DAY_MS);
    await meter.retain(clock.now());
    await other.retain(clock.now());
    expect([meter.lowWater(), other.lowWater()]).toEqual([0, 3]);
    await ledger.commitCursor('lago', 3);
    await meter.retain(clock.now());
    expect(meter.lowWater()).toBe(3);
    await expect.poll(() => ledger.lowWater(), { timeout: 10_000 }).toBe(3);
    for (const one of [ledger, opened.ledger, meter, other]) await one.close();
    const again = await open(await lead('hub-2'));
    expect(again.cursors()).toMatchObject([{ destination: 'lago', sequence: 3 }]);
    await again.close();
  });

  test('get no event and no record of the operator from a hub', async () => {
    const { database, lead, open } = await emptyFleet();
    const epoch = await lead('hub-1');
    const meter = await openTestStream(database, BERLIN);
    const ledger = await open(epoch);
    const refused = { kind: 'failed', cause: 'invalid' };
    expect(await ledger.append({ events: [testEvent()] })).toMatchObject(refused);
    const change = { key: 'discovery/tenant/acme', value: '{}' };
    expect(await ledger.writeRecords([change])).toMatchObject(refused);
    expect(await ledger.commitCursor('lago', 0, { records: [change] })).toMatchObject(refused);
    expect(await ledger.record(change.key)).toBeUndefined();
    expect(meter.head()).toBe(0);
    const own = { key: 'hub/departed/acme', value: '1' };
    expect(await ledger.writeRecords([own])).toEqual({ kind: 'written' });
    for (const opened of [ledger, meter]) await opened.close();
  });

  test('take nothing more from a process that another one of the hub has followed', async () => {
    const { database, lead, open } = await emptyFleet();
    const meter = await openTestStream(database, BERLIN);
    await meter.append({ events: [testEvent()] });
    const before = await open(await lead('hub-1'));
    expect(await before.commitCursor('lago', 0)).toEqual({ kind: 'written' });
    const after = await open(await lead('hub-2'));
    const fenced = { kind: 'failed', cause: 'fenced' };
    expect(await before.commitCursor('lago', 1)).toMatchObject(fenced);
    expect(await before.writeRecords([{ key: 'delivery/x', value: 'y' }])).toMatchObject(fenced);
    expect(after.cursors()).toMatchObject([{ destination: 'lago', sequence: 0 }]);
    expect(await after.commitCursor('lago', 1)).toEqual({ kind: 'written' });
    for (const opened of [before, after, meter]) await opened.close();
  });
});

describe('a customer', () => {
  test('is on record for the destination that it was written for until it is taken away', async () => {
    const { fleet, lead } = await emptyFleet();
    const customers = fleet.customers(await lead('hub-1'));
    await Promise.all(['lago', 'stripe'].map((one) => customers.write(one, 'acme', ACME)));
    const moved = { ...ACME, streams: ['berlin', 'paris'] };
    await customers.write('lago', 'acme', moved);
    await customers.write('stripe', 'acme', undefined);
    expect([...(await customers.read('lago'))]).toEqual([['acme', moved]]);
    expect([...(await customers.read('stripe'))]).toEqual([]);
  });

  test('is neither read nor written by a process that another one of the hub has followed', async () => {
    const { fleet, lead } = await emptyFleet();
    const before = fleet.customers(await lead('hub-1'));
    await before.write('lago', 'acme', ACME);
    const after = fleet.customers(await lead('hub-2'));
    await expect(before.write('lago', 'acme', undefined)).rejects.toThrow('another process');
    await expect(before.read('lago')).rejects.toThrow('another process');
    expect([...(await after.read('lago'))]).toEqual([['acme', ACME]]);
  });
});
