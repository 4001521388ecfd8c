import { expect, test } from 'vitest';
import { encodeEvent } from '../../model/event.ts';
import { encodeStoredEvents } from '../event-chain.ts';
import { testEvent } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { createDatabase, type Database } from './database.ts';
import { decodeStoredEvent, walkEvents } from './event-walk.ts';
import { KEY_SPACE, numberKey } from './keys.ts';

const used = useLedgers();
const EVENTS = 200;
/** Counts that are read by keys, by one iteration chunk, and by more than one. */
const READS = [1, 2, 32, 33, 128, 129, EVENTS];

async function withEvents(action: (database: Database) => Promise<void>): Promise<void> {
  const database = await createDatabase(`${await used.directory()}/events`);
  const texts = Array.from({ length: EVENTS }, (_, index) =>
    encodeEvent(testEvent({ id: `e-${index + 1}` })),
  );
  for (const [index, value] of encodeStoredEvents(1, texts).values.entries()) {
    await database.put(numberKey(KEY_SPACE.event, index + 1), value);
  }
  try {
    await action(database);
  } finally {
    await database.close();
  }
}

async function idsOf(database: Database, first: number, last: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const entries of walkEvents(database, 'here', first, last)) {
    ids.push(...entries.map((entry) => decodeStoredEvent(entry).id));
  }
  return ids;
}

test('a read of few events gives others than a read of many', async () => {
  await withEvents(async (database) => {
    const all = Array.from({ length: EVENTS }, (_, index) => `e-${index + 1}`);
    for (const count of READS) {
      for (const first of new Set([1, Math.min(50, EVENTS - count + 1), EVENTS - count + 1])) {
        const last = first + count - 1;
        expect(await idsOf(database, first, last)).toEqual(all.slice(first - 1, last));
      }
    }
    expect(await idsOf(database, 5, 4)).toEqual([]);
  });
});

test('a damaged event, one under a wrong number or a missing one is passed over where few are read', async () => {
  await withEvents(async (database) => {
    const [damaged, strange, missing] = [60, 70, 80].map((sequence) =>
      numberKey(KEY_SPACE.event, sequence),
    );
    if (damaged === undefined || strange === undefined || missing === undefined) throw new Error();
    const value = (await database.get(damaged)) ?? Buffer.alloc(0);
    value[value.length - 2] = 0;
    await database.put(damaged, value);
    await database.put(strange, (await database.get(missing)) ?? Buffer.alloc(0));
    await database.del(missing);
    for (const count of READS.filter((most) => most < EVENTS)) {
      const read = (first: number) => idsOf(database, first, Math.min(EVENTS, first + count - 1));
      await expect(read(60)).rejects.toThrow('event 60 is damaged');
      await expect(read(70)).rejects.toThrow('event 70 is damaged');
      await expect(read(80)).rejects.toThrow('event 80 is missing');
    }
    await expect(idsOf(database, EVENTS, EVENTS + 1)).rejects.toThrow('event 201 is missing');
    await expect(idsOf(database, 81, EVENTS + 1)).rejects.toThrow('event 201 is missing');
  });
});
