import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { Ledger } from '../ledger.ts';
import { testWindow, TEST_WINDOW_MS, TEST_WINDOW_START } from '../testing/events.ts';
import { openTestStream } from '../testing/postgres-ledger.ts';
import { type PostgresServer, startPostgres } from '../testing/postgres-server.ts';

const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);
const WITHIN = { timeout: 20_000, interval: 50 };

let primary: PostgresServer;
let standby: PostgresServer;
let database: LedgerDatabase;

beforeAll(async () => {
  primary = await startPostgres();
  standby = await startPostgres({ standbyOf: { server: primary, name: 's1' } });
});
afterAll(async () => {
  await standby?.stop();
  await primary?.stop();
});

/** The standbys that a commit waits for; a missing one blocks it for ever. */
async function waitFor(standbys: string): Promise<void> {
  await primary.query(`alter system set synchronous_standby_names = '${standbys}'`);
  await primary.query('select pg_reload_conf()');
  await expect
    .poll(async () => await primary.query('show synchronous_standby_names'), WITHIN)
    .toEqual([{ synchronous_standby_names: standbys }]);
}

/** The server process that waits for the standby. */
async function waiting(): Promise<number> {
  const select = `select pid from pg_stat_activity where wait_event = 'SyncRep' and datname = '${database.name}'`;
  await expect.poll(async () => (await primary.query(select)).length, WITHIN).toBe(1);
  return Number((await primary.query(select))[0]?.['pid']);
}

async function storedEvents(): Promise<number> {
  return (await primary.query('select from meterfeed_cluster_a.event', database.name)).length;
}

/** Retries until the event is appended, as every caller does. */
async function appended(ledger: Ledger, index: number): Promise<void> {
  await expect
    .poll(async () => await ledger.append({ events: windowAt(index) }), WITHIN)
    .toMatchObject({ kind: 'appended' });
}

beforeEach(async () => {
  await waitFor('s1');
  database = await primary.createDatabase();
});

describe('LEDGER_DURABILITY=standby', () => {
  test('acknowledges nothing while no standby is configured, says so, and goes on when one is', async () => {
    const ledger = await openTestStream(database, { durability: 'standby' });
    await appended(ledger, 0);
    await waitFor('');
    await expect
      .poll(async () => await ledger.append({ events: windowAt(1) }), WITHIN)
      .toMatchObject({
        kind: 'failed',
        cause: 'retryable',
        message: expect.stringContaining('no synchronous standby'),
      });
    const held = ledger.head();
    expect(await ledger.append({ events: windowAt(2) })).toMatchObject({ kind: 'failed' });
    expect(ledger.head()).toBe(held);
    await waitFor('s1');
    await appended(ledger, 2);
    await ledger.close();
  });

  test('reports at the next measurement whether there is a standby at all, configured or not', async () => {
    const ledger = await openTestStream(database, { durability: 'standby' });
    const missing = async (): Promise<boolean | undefined> => {
      await ledger.retain(0);
      return ledger.stats().standbyMissing;
    };
    await expect.poll(missing, WITHIN).toBe(false);
    await waitFor('nobody');
    await expect.poll(missing, WITHIN).toBe(true);
    await waitFor('');
    await expect.poll(missing, WITHIN).toBe(true);
    await waitFor('s1');
    await expect.poll(missing, WITHIN).toBe(false);
    await ledger.close();
  });

  test('=storage leaves that to the storage', async () => {
    await waitFor('');
    const ledger = await openTestStream(database, { durability: 'storage' });
    expect(await ledger.append({ events: windowAt(0) })).toMatchObject({ kind: 'appended' });
    await ledger.close();
  });
});

describe('a commit of which it is not known whether it happened', () => {
  test.each(['pg_cancel_backend', 'pg_terminate_backend'])(
    'because of %s while it waited for the standby, is found out, and stored once',
    async (end) => {
      const ledger = await openTestStream(database, { durability: 'standby' });
      await appended(ledger, 0);
      await waitFor('nobody');
      const outcome = ledger.append({ events: windowAt(1), records: [{ key: 'k', value: 'v' }] });
      await primary.query(`select ${end}(${await waiting()})`);
      // The visible write is on no standby yet: the barrier waits for it, too.
      await waiting();
      expect(ledger.head()).toBe(5);
      await waitFor('s1');
      expect(await outcome).toMatchObject({
        kind: 'appended',
        outcomes: windowAt(1).map(() => 'accepted'),
        head: 10,
      });
      expect(await ledger.record('k')).toBe('v');
      await appended(ledger, 2);
      expect(await storedEvents()).toBe(15);
      expect((await ledger.verify()).errors).toEqual([]);
      await ledger.close();
    },
  );

  test('because the server does not answer, is acknowledged to nobody, and stored once when it is back', async () => {
    const ledger = await openTestStream(database, { durability: 'standby', answerMs: 1_000 });
    await appended(ledger, 0);
    await waitFor('nobody');
    expect(await ledger.append({ events: windowAt(1) })).toMatchObject({
      kind: 'failed',
      cause: 'retryable',
    });
    expect(ledger.head()).toBe(5);
    expect(await ledger.read(5, 10)).toMatchObject({ events: [] });
    await waitFor('s1');
    await appended(ledger, 1);
    expect(ledger.head()).toBe(10);
    expect(await storedEvents()).toBe(10);
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
  });
});

test('what was acknowledged is on the standby that takes over when the primary is lost', async () => {
  const ledger = await openTestStream(database, { durability: 'standby', answerMs: 1_000 });
  let acknowledged = 0;
  const writing = (async () => {
    for (let index = 0; ; index++) {
      const outcome = await ledger.append({
        events: windowAt(index),
        records: [{ key: 'journal', value: String(index) }],
      });
      if (outcome.kind === 'failed') return;
      acknowledged = outcome.head;
      if (acknowledged === 100) primary.kill('SIGQUIT');
    }
  })();
  await writing;
  await ledger.close();
  await standby.query('select pg_promote()');
  const next = await openTestStream({ ...database, port: standby.port });
  expect(acknowledged).toBeGreaterThanOrEqual(100);
  expect(next.head()).toBeGreaterThanOrEqual(acknowledged);
  expect(await next.record('journal')).toBe(String(next.head() / 5 - 1));
  expect((await next.verify()).errors).toEqual([]);
  await next.close();
});
