import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Customer } from '../fleet.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createFleetDatabase } from './fleet-database.ts';

const used = usePostgres();

async function emptyFleet() {
  const database = await used.server().createDatabase();
  const fleet = createFleetDatabase({
    database,
    durability: 'storage',
    retentionMs: 86_400_000,
    clock: systemClock,
    logger: silentLogger,
  });
  return { database, fleet };
}

const ACME: Customer = { fingerprint: 'acme', streams: ['berlin'] };

describe('the streams of a database', () => {
  test('are found by a hub that was there before any meter, and joined without taking one over', async () => {
    const { database, fleet } = await emptyFleet();
    expect(await fleet.streams()).toEqual([]);
    const meter = await openTestStream(database, { source: 'berlin', region: 'eu-1' });
    const other = await openTestStream(database, { source: 'paris', region: 'eu-2' });
    expect(await fleet.streams()).toEqual([
      { source: 'berlin', region: 'eu-1' },
      { source: 'paris', region: 'eu-2' },
    ]);
    const joined = await fleet.join({ source: 'berlin', region: 'eu-1' });
    if (joined.kind === 'failed') throw new Error(joined.message);
    expect(joined.ledger.stats().ledgerId).toBe(meter.stats().ledgerId);
    expect(await meter.writeRecords([{ key: 'k', value: 'v' }])).toEqual({ kind: 'written' });
    await expect.poll(() => joined.ledger.record('k')).toBe('v');
    for (const ledger of [joined.ledger, meter, other]) await ledger.close();
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
});

describe('a customer', () => {
  test('is worked on by one at a time, also before anything of it is on record', async () => {
    const { fleet } = await emptyFleet();
    await fleet.streams();
    let working = 0;
    let most = 0;
    let made = 0;
    const work = () =>
      fleet.customers.alone('lago', 'acme', async (known) => {
        working += 1;
        most = Math.max(most, working);
        await delay(20);
        working -= 1;
        if (known !== undefined) return { result: 'found', record: 'as before' };
        made += 1;
        return { result: 'made', record: ACME };
      });
    const results = await Promise.all([work(), work(), work(), work()]);
    expect(results.toSorted()).toEqual(['found', 'found', 'found', 'made']);
    expect({ most, made }).toEqual({ most: 1, made: 1 });
  });

  test('is no record of another destination, nor of one whose work failed', async () => {
    const { fleet } = await emptyFleet();
    await fleet.streams();
    const { customers } = fleet;
    const known = (destination: string) =>
      customers.alone(destination, 'acme', async (found) => ({
        result: found,
        record: 'as before',
      }));
    await customers.alone('lago', 'acme', async () => ({ result: undefined, record: ACME }));
    expect(await known('stripe')).toBeUndefined();
    const failing = customers.alone('lago', 'acme', async () => {
      throw new Error('no answer');
    });
    await expect(failing).rejects.toThrow('no answer');
    expect(await known('lago')).toEqual(ACME);
    await customers.alone('lago', 'acme', async () => ({ result: undefined, record: 'none' }));
    expect(await known('lago')).toBeUndefined();
  });
});
