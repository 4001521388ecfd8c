import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { encodeEvent } from '../../model/event.ts';
import type { Ledger } from '../ledger.ts';
import { testWindow, TEST_WINDOW_MS, TEST_WINDOW_START } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { partitionOf, weekOf } from './weeks.ts';

const used = usePostgres();
const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);

async function openFilled(): Promise<{
  readonly ledger: Ledger;
  readonly change: (text: string) => Promise<unknown>;
  readonly database: LedgerDatabase;
}> {
  const database = await used.server().createDatabase();
  const ledger = await openTestStream(database);
  for (const index of [0, 1, 2]) await ledger.append({ events: windowAt(index) });
  return {
    ledger,
    database,
    change: (text) => used.server().query(text, database.name),
  };
}

describe('what somebody changes in the tables', () => {
  test.each([
    ['a quantity', 'update meterfeed_cluster_a.event set quantity = quantity + 1 where seq = 7'],
    ['a tenant', "update meterfeed_cluster_a.event set tenant = 'other' where seq = 7"],
    ['a number', 'update meterfeed_cluster_a.event set seq = 99 where seq = 7'],
    ['a text', "update meterfeed_cluster_a.event set original = '{}' where seq = 7"],
    ['a row', 'delete from meterfeed_cluster_a.event where seq = 7'],
    ['an id', "update meterfeed_cluster_a.event set id = 'x' where seq = 7"],
  ])('%s is found when it is read, and never passed over', async (_, text) => {
    const { ledger, change, database } = await openFilled();
    await change(text);
    await ledger.close();
    const again = await openTestStream(database);
    expect(await again.read(5, 5)).toMatchObject({ kind: 'failed', cause: 'corrupt' });
    await expect(Array.fromAsync(again.scan(0, Number.MAX_SAFE_INTEGER))).rejects.toMatchObject({
      failure: { cause: 'corrupt' },
    });
    expect((await again.verify()).ok).toBe(false);
    expect(again.stats().problems).not.toEqual([]);
    // Undamaged events are unaffected.
    expect(await again.append({ events: windowAt(9) })).toMatchObject({ head: 20 });
    await again.close();
  });

  test('an event and its checksum together are found by the chain', async () => {
    const { ledger, change } = await openFilled();
    const columns = 'quantity, tenant, window_start, window_end, recorded_at, dimensions, id';
    const [week] = [partitionOf('meterfeed_cluster_a', weekOf(Date.now()))];
    await change(`alter table ${week} drop constraint ${week.split('.')[1]}_id_key`);
    await change(`update ${week} set (${columns}) = (select ${columns} from ${week} where seq = 2)
      where seq = 7`);
    const { sequence, event } = await eventAt(ledger, 2);
    const checksum = crc32(encodeEvent(event), sequence + 5) | 0;
    await change(`update ${week} set crc = ${checksum} where seq = 7`);
    expect(await eventAt(ledger, 7)).toEqual({ sequence: 7, event });
    expect((await ledger.verify()).ok).toBe(false);
    await ledger.close();
  });

  test('a repeat of a damaged event is refused alone, and nothing of its request is stored', async () => {
    const { ledger, change } = await openFilled();
    await change('update meterfeed_cluster_a.event set quantity = 9 where seq = 7');
    const outcomes = await Promise.all([
      ledger.append({ events: [...windowAt(8), ...windowAt(1)] }),
      ledger.append({ events: windowAt(7) }),
    ]);
    expect(outcomes).toMatchObject([
      { kind: 'failed', cause: 'corrupt' },
      { kind: 'appended', head: 20 },
    ]);
    await ledger.close();
  });

  test('the head that went back stops the writer instead of giving numbers twice', async () => {
    const { ledger, change } = await openFilled();
    await change(
      'update meterfeed_cluster_a.stream set last_batch = last_batch - 1, head = head - 5',
    );
    expect(await ledger.append({ events: windowAt(5) })).toMatchObject({
      kind: 'failed',
      cause: 'corrupt',
      message: expect.stringContaining('the newest events are missing'),
    });
    expect(ledger.stats().problems).toEqual([expect.stringContaining('events 11 to 15 (5)')]);
    await ledger.close();
  });

  test('a record that PostgreSQL cannot hold is refused alone', async () => {
    const { ledger } = await openFilled();
    const outcomes = await Promise.all([
      ledger.writeRecords([{ key: 'a', value: 'x\0y' }]),
      ledger.writeRecords([{ key: 'b', value: 'good' }]),
    ]);
    expect(outcomes).toMatchObject([{ cause: 'invalid' }, { kind: 'written' }]);
    expect(await ledger.record('b')).toBe('good');
    await ledger.close();
  });
});

async function eventAt(ledger: Ledger, sequence: number) {
  const page = await ledger.read(sequence - 1, 1);
  const [stored] = page.kind === 'page' ? page.events : [];
  if (stored === undefined) throw new Error(`event ${sequence} cannot be read`);
  return stored;
}
