import { describe, expect, test } from 'vitest';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Customer } from '../fleet.ts';
import type { Ledger } from '../ledger.ts';
import { testEvent } from '../testing/events.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createFleetDatabase } from './fleet-database.ts';
import { HubLease } from './hub-lease.ts';

const used = usePostgres();
const BERLIN = { source: 'berlin', region: 'eu-1' };

async function emptyFleet() {
  const database = await used.server().createDatabase();
  const fleet = createFleetDatabase({
    database,
    durability: 'storage',
    retentionMs: 86_400_000,
    clock: systemClock,
    logger: silentLogger,
  });
  /** Leads as a process of its own for a moment; gives its epoch. */
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
    expect(await meter.writeRecords([{ key: 'k', value: 'v' }])).toEqual({ kind: 'written' });
    await expect.poll(() => ledger.record('k')).toBe('v');
    for (const opened of [ledger, meter, other]) await opened.close();
  });

  test('of a database that is not there are asked for with its name', async () => {
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
