import { describe, expect, test } from 'vitest';
import { testWindow, TEST_WINDOW_MS, TEST_WINDOW_START } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { postgresOptions } from '../testing/postgres-options.ts';
import { openPostgresLedger } from './open-postgres-ledger.ts';
import { schemaOf } from './schema-name.ts';

const used = usePostgres();
const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);

describe('a start', () => {
  test('of many processes at once on an empty database sets it up once', async () => {
    const database = await used.server().createDatabase();
    const names = Array.from({ length: 6 }, (_, index) => ({
      source: `cluster-${index}`,
      region: `region-${index}`,
    }));
    const ledgers = await Promise.all(names.map((name) => openTestStream(database, name)));
    const outcomes = await Promise.all(
      ledgers.map((ledger) => ledger.append({ events: windowAt(0) })),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(names.map(() => 'appended'));
    expect(new Set(ledgers.map((ledger) => ledger.stats().ledgerId)).size).toBe(6);
    const { name } = database;
    for (const { source } of names) {
      const versions = `select version from ${schemaOf(source)}.version`;
      expect(await used.server().query(versions, name)).toEqual([{ version: 1 }, { version: 2 }]);
    }
    for (const ledger of ledgers) await ledger.close();
  });

  test('on a database that a newer program has changed is refused, and changes nothing', async () => {
    const database = await used.server().createDatabase();
    await (await openTestStream(database)).close();
    await used
      .server()
      .query('insert into meterfeed_cluster_a.version (version) values (99)', database.name);
    const before = await used
      .server()
      .query('select epoch from meterfeed_cluster_a.stream', database.name);
    expect(await openPostgresLedger(postgresOptions(database))).toMatchObject({
      kind: 'failed',
      cause: 'invalid',
      message: expect.stringContaining('version 99'),
    });
    expect(
      await used.server().query('select epoch from meterfeed_cluster_a.stream', database.name),
    ).toEqual(before);
  });

  test('of many processes at once on one stream makes it once, and leaves one of them as its writer', async () => {
    const database = await used.server().createDatabase();
    const ledgers = await Promise.all(Array.from({ length: 4 }, () => openTestStream(database)));
    expect(new Set(ledgers.map((ledger) => ledger.stats().ledgerId)).size).toBe(1);
    const outcomes = await Promise.all(
      ledgers.map((ledger, index) => ledger.append({ events: windowAt(index) })),
    );
    expect(outcomes.filter(({ kind }) => kind === 'appended')).toHaveLength(1);
    for (const ledger of ledgers) await ledger.close();
  });

  test('on a server that is not there says where it was looked for', async () => {
    const database = { ...(await used.server().createDatabase()), port: 1 };
    expect(await openPostgresLedger(postgresOptions(database))).toMatchObject({
      kind: 'failed',
      cause: 'retryable',
      message: expect.stringContaining('127.0.0.1:1/'),
    });
  });
});

describe('a second instance', () => {
  test('on the same stream stops the first one for good, and nothing acknowledged is lost', async () => {
    const database = await used.server().createDatabase();
    const first = await openTestStream(database);
    await first.append({ events: windowAt(0) });
    const second = await openTestStream(database);
    const refused = { kind: 'failed', cause: 'fenced' };
    expect(await first.append({ events: windowAt(1) })).toMatchObject(refused);
    expect(await first.commitCursor('lago', 1)).toMatchObject(refused);
    expect(await second.append({ events: windowAt(2) })).toMatchObject({ head: 10 });
    // Deletion reads the stream again, and must not adopt the other process's right to write.
    await first.retain(Date.now());
    expect(await first.append({ events: windowAt(3) })).toMatchObject(refused);
    expect(second.head()).toBe(10);
    expect((await second.verify()).errors).toEqual([]);
    await first.close();
    await second.close();
  });

  test('is not joined by the first one, whatever that one does first', async () => {
    const database = await used.server().createDatabase();
    const first = await openTestStream(database);
    const second = await openTestStream(database);
    await first.retain(Date.now());
    expect(await first.append({ events: windowAt(1) })).toMatchObject({ cause: 'fenced' });
    expect(await second.append({ events: windowAt(2) })).toMatchObject({ head: 5 });
    await first.close();
    await second.close();
  });

  test('is not let in before the first has ended the batch that it is writing', async () => {
    const database = await used.server().createDatabase();
    const first = await openTestStream(database);
    const writing = Array.from({ length: 20 }, (_, index) =>
      first.append({ events: windowAt(index) }),
    );
    const second = await openTestStream(database);
    const outcomes = await Promise.all(writing);
    const stored = outcomes.flatMap((outcome) => (outcome.kind === 'appended' ? outcome.head : []));
    expect(second.head()).toBe(Math.max(0, ...stored));
    expect((await second.verify()).errors).toEqual([]);
    await first.close();
    await second.close();
  });
});
