import { describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../config/settings.ts';
import { testWindow, TEST_WINDOW_MS, TEST_WINDOW_START } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { joinTestStream, type TestReplica } from '../testing/postgres-replicas.ts';

const used = usePostgres();
const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);
const FENCED = { kind: 'failed', cause: 'fenced' };
const WITHIN = { timeout: 10_000, interval: 20 };

async function twoReplicas(): Promise<{
  readonly database: LedgerDatabase;
  readonly one: TestReplica;
  readonly other: TestReplica;
  readonly close: () => Promise<void>;
}> {
  const database = await used.server().createDatabase();
  const [one, other] = await Promise.all([joinTestStream(database), joinTestStream(database)]);
  const close = async () => {
    await one.ledger.close();
    await other.ledger.close();
  };
  return { database, one, other, close };
}

describe('of two replicas', () => {
  test('the one that leads closes windows, the other takes pushed usage, and neither takes that for a loss', async () => {
    const { one, other, close } = await twoReplicas();
    await one.lead();
    for (const index of [0, 1, 2, 3, 4, 5]) {
      const by = index % 2 === 0 ? one.ledger : other.open;
      expect(await by.append({ events: windowAt(index) })).toMatchObject({
        kind: 'appended',
        head: 5 * (index + 1),
      });
    }
    for (const { ledger } of [one, other]) {
      await expect.poll(() => ledger.head(), WITHIN).toBe(30);
      expect((await ledger.verify()).errors).toEqual([]);
      expect(ledger.stats().problems).toEqual([]);
    }
    await close();
  });

  test('the one that does not lead closes no window, moves no cursor and deletes nothing', async () => {
    const { one, other, close } = await twoReplicas();
    await one.lead();
    await one.ledger.append({ events: windowAt(0) });
    expect(await other.ledger.append({ events: windowAt(1), windowEnd: 1 })).toMatchObject(FENCED);
    expect(await other.ledger.commitCursor('lago', 1)).toMatchObject(FENCED);
    expect(await other.ledger.writeRecords([{ key: 'k', value: 'v' }])).toMatchObject(FENCED);
    await other.ledger.retain(Date.UTC(2100, 0, 1));
    await expect.poll(() => other.ledger.head(), WITHIN).toBe(5);
    expect(other.ledger.lowWater()).toBe(0);
    await close();
  });

  test('the one before is refused from the moment at which the other leads, and takes pushed usage all the same', async () => {
    const { one, other, close } = await twoReplicas();
    expect(await one.ledger.append({ events: windowAt(0) })).toMatchObject(FENCED);
    await one.lead();
    expect(await one.ledger.append({ events: windowAt(0) })).toMatchObject({ head: 5 });
    await other.lead();
    expect(await one.ledger.append({ events: windowAt(1) })).toMatchObject(FENCED);
    expect(await one.open.append({ events: windowAt(2) })).toMatchObject({ head: 10 });
    expect(await other.ledger.append({ events: windowAt(3) })).toMatchObject({ head: 15 });
    // It may be given the stream once more.
    await one.lead();
    expect(await one.ledger.append({ events: windowAt(4) })).toMatchObject({ head: 20 });
    expect(await other.ledger.append({ events: windowAt(5) })).toMatchObject(FENCED);
    expect((await one.ledger.verify()).errors).toEqual([]);
    await close();
  });

  test('a window of a meter that waited behind a take-over is not stored, and pushed usage in the same batch is', async () => {
    const { database, one, other, close } = await twoReplicas();
    await one.lead();
    await one.ledger.append({ events: windowAt(0) });
    const blocker = used
      .server()
      .query(
        'begin; select from meterfeed.stream for update; select pg_sleep(1); commit',
        database.name,
      );
    await expect
      .poll(
        () =>
          used
            .server()
            .query(
              "select pid from pg_stat_activity where query like 'begin; select from%' and state = 'active' and pid <> pg_backend_pid()",
            ),
        WITHIN,
      )
      .toHaveLength(1);
    const leading = other.lead();
    const first = one.open.append({ events: windowAt(1) });
    const late = one.ledger.append({ events: windowAt(2) });
    const pushed = one.open.append({ events: windowAt(3) });
    await blocker;
    expect(await leading).toEqual({ kind: 'written' });
    expect(await first).toMatchObject({ kind: 'appended' });
    expect(await pushed).toMatchObject({ kind: 'appended' });
    const outcome = await late;
    // Whoever was first at the lock: nothing of a refused window is there, and all of one that was stored.
    const windows = outcome.kind === 'appended' ? 4 : 3;
    await expect.poll(() => other.ledger.head(), WITHIN).toBe(5 * windows);
    expect((await other.ledger.verify()).errors).toEqual([]);
    await close();
  });

  test('the same ids that both are given at once are stored once', async () => {
    const { one, other, close } = await twoReplicas();
    const outcomes = await Promise.all(
      [one, other, one, other].map(({ open }) => open.append({ events: windowAt(0) })),
    );
    const words = outcomes.map((outcome) =>
      outcome.kind === 'appended' ? outcome.outcomes.join() : outcome.message,
    );
    const [all, none] = ['accepted', 'duplicate'].map((word) =>
      windowAt(0)
        .map(() => word)
        .join(),
    );
    expect(words.toSorted()).toEqual([all, none, none, none]);
    await close();
  });

  test('what one has sent before it is told that the other has written is taken back and stored behind that', async () => {
    const { database, one, other, close } = await twoReplicas();
    await one.lead();
    const batches = 60;
    for (let index = 0; index < batches; index++) {
      // Long after the last time, so that nobody is expected to write; and two at once, so that neither can be known to the other.
      const byOther = index % 20 === 19 ? [other.open.append({ events: windowAt(index) })] : [];
      const outcomes = await Promise.all([
        one.ledger.append({ events: windowAt(index), windowEnd: index }),
        ...byOther,
      ]);
      const words = outcomes.flatMap((outcome) =>
        outcome.kind === 'appended' ? outcome.outcomes : outcome.message,
      );
      expect(words.filter((word) => word === 'accepted')).toHaveLength(5);
      expect(words.filter((word) => word === 'duplicate')).toHaveLength(5 * byOther.length);
    }
    expect(one.ledger.head()).toBe(5 * batches);
    const [row] = await used
      .server()
      .query('select count(*), max(seq) from meterfeed.event', database.name);
    expect(row).toEqual({ count: String(5 * batches), max: String(5 * batches) });
    expect((await one.ledger.verify()).errors).toEqual([]);
    expect(one.ledger.stats().problems).toEqual([]);
    await close();
  });

  test('a batch that is sent before the lock tells that this process may not write leaves nothing behind', async () => {
    const { database, one, close } = await twoReplicas();
    await one.lead();
    await one.ledger.append({ events: windowAt(0) });
    const stored = async () => {
      const text = `select head, stream.batch, count(event) as events, (select count(*) from meterfeed.series) as series
        from meterfeed.stream left join meterfeed.event using (stream) group by stream.stream`;
      const [row] = await used.server().query(text, database.name);
      return row;
    };
    const before = await stored();
    await used.server().query('delete from meterfeed.writer', database.name);
    // Its series are asked for, which takes a while, and everything else is sent by the answer.
    const many = testWindow(TEST_WINDOW_START + TEST_WINDOW_MS, 3_000);
    const events = many.map((event) => ({ ...event, sku: `new-${event.id}` }));
    expect(await one.ledger.append({ events })).toMatchObject(FENCED);
    await close();
    expect(await stored()).toEqual(before);
  });

  test('the standby knows heads, cursors and the last window within a second, and whoever waits is woken', async () => {
    const { one, other, close } = await twoReplicas();
    await one.lead();
    const woken = other.ledger.changed(4, AbortSignal.timeout(5_000));
    const at = performance.now();
    await one.ledger.append({ events: windowAt(0), windowEnd: TEST_WINDOW_START });
    await one.ledger.commitCursor('lago', 3);
    await woken;
    expect(performance.now() - at).toBeLessThan(2_000);
    await expect
      .poll(() => other.ledger.cursors(), WITHIN)
      .toMatchObject([{ destination: 'lago', sequence: 3 }]);
    expect(other.ledger.stats().lastWindowEnd).toBe(TEST_WINDOW_START);
    expect(await other.ledger.read(0, 10)).toMatchObject({ lastSequence: 5 });
    await close();
  });

  test('a process that opens the ledger as the only one takes it from the meter, as ever', async () => {
    const { database, one, close } = await twoReplicas();
    await one.lead();
    await one.ledger.append({ events: windowAt(0) });
    const only = await openTestStream(database);
    expect(await one.ledger.append({ events: windowAt(1) })).toMatchObject(FENCED);
    expect(await only.append({ events: windowAt(1) })).toMatchObject({ head: 10 });
    await only.close();
    await close();
  });
});

describe('a server that lost what it confirmed', () => {
  test('is found by the process that was acknowledged it, though another one has written on', async () => {
    const { database, one, other, close } = await twoReplicas();
    await one.lead();
    await one.ledger.append({ events: windowAt(0) });
    await other.open.append({ events: windowAt(1) });
    // As a standby would have it that never got the batch of the one: records alone, which leave no mark in the chain.
    const lost = `update meterfeed.stream set batch = batch - 1;
      update meterfeed.writer set batch = batch - 1 where batch = 3`;
    expect(await one.ledger.writeRecords([{ key: 'k', value: 'v' }])).toEqual({ kind: 'written' });
    await used.server().query(lost, database.name);
    const { name } = database;
    await used.server().query("delete from meterfeed.record where key = 'k'", name);
    // The other has seen nothing of it and goes on, unless its poll was faster.
    await other.open.append({ events: windowAt(2) });
    await other.open.append({ events: windowAt(3) });
    expect(await one.ledger.writeRecords([{ key: 'l', value: 'v' }])).toMatchObject({
      kind: 'failed',
      cause: 'corrupt',
      message: expect.stringContaining('the newest events are missing'),
    });
    await close();
  });
});
