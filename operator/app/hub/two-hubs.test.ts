import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { startOperator } from '../../../e2e/local/operator-process.ts';
import { runFiles } from '../../../e2e/local/run-directory.ts';
import { startDatabaseProxy } from '../../../e2e/postgres/proxy.ts';
import { signalProcess } from '../../../e2e/processes/pid-file.ts';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { testTenant } from '../../destinations/testing/context.ts';
import { usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import { databaseUrl, playMeter, startReceiving, usageOf } from './testing/fleet-world.ts';

const used = usePostgres();
/** A take-over waits fifteen seconds for the process before. */
const WITHIN = { timeout: 60_000, interval: 100 };
const LONG_MS = 180_000;
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A stream, and what hubs deliver of it: each hub to a path of its own. */
async function startWorld() {
  const database = await used.server().createDatabase();
  const received = await startReceiving();
  cleanups.push(() => received.stop());
  const meter = await playMeter(database, { source: 'berlin', region: 'eu-1' });
  cleanups.push(() => meter.stop());
  await meter.setTenants(testTenant({ id: 'acme', displayName: 'Acme', clusters: ['tenant-a'] }));
  let windows = 0;
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-hubs-'));
  cleanups.push(() => rm(directory, { recursive: true, force: true }));
  /** Ids that were recorded. */
  const recorded: string[] = [];
  const record = async (count: number): Promise<void> => {
    const events = Array.from({ length: count }, (_, index) =>
      usageOf('acme', 'eu-1', windows + index),
    );
    windows += count;
    recorded.push(...events.map(({ id }) => id));
    await meter.ledger.append({ events });
  };
  /** Ids of usage that a hub delivered, or any. */
  const delivered = (hub?: string): readonly string[] =>
    received.ids.filter((_, index) => {
      const isUsage = received.events[index]?.includes('.usage.') === true;
      return isUsage && (hub === undefined || received.paths[index] === `/${hub}`);
    });
  const start = async (name: string, way: LedgerDatabase = database) => {
    const files = runFiles(join(directory, name));
    await mkdir(files.directory);
    const hub = await startOperator({
      files,
      kubeconfig: '',
      env: {
        ROLE: 'hub',
        CLUSTER_NAME: 'hub',
        LEDGER_URL: databaseUrl(way),
        LEDGER_DURABILITY: 'storage',
        ADAPTERS: 'webhook',
        DESTINATIONS_START_FROM: 'earliest',
        WEBHOOK_URL: `${received.url}${name}`,
      },
      signal: AbortSignal.timeout(60_000),
    });
    const { address, pid } = hub;
    cleanups.push(async () => {
      signalProcess(pid, 'SIGCONT');
      await hub.stop();
    });
    const query = (path: string) => fetch(`${address}${path}`);
    const leads = async (): Promise<boolean> => (await query('/leaderz')).ok;
    /** Events that are delivered, and durably on record as such. */
    const cursor = async (): Promise<unknown> => {
      const status: unknown = await (await query('/api/v1/status')).json();
      return isRecord(status) && Array.isArray(status['destinations'])
        ? status['destinations'][0]?.cursor
        : undefined;
    };
    const signal = (name: NodeJS.Signals) => signalProcess(pid, name);
    return { query, leads, cursor, signal, stop: () => hub.stop() };
  };
  return { database, record, recorded, delivered, start };
}

test(
  'one of two hubs feeds and answers, the other one is ready and says to come again, and follows it when it is killed',
  async () => {
    const { record, recorded, delivered, start } = await startWorld();
    const first = await start('hub-1');
    await expect.poll(first.leads, WITHIN).toBe(true);
    const second = await start('hub-2');
    await record(50);
    await expect.poll(() => delivered().length, WITHIN).toBe(50);
    expect(await second.leads()).toBe(false);
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      expect([path, (await second.query(path)).status]).toEqual([path, 200]);
    }
    for (const path of ['/', '/api/v1/usage', '/api/v1/fleet']) {
      const answer = await second.query(path);
      expect([path, answer.status, answer.headers.get('retry-after')]).toEqual([path, 503, '5']);
    }
    first.signal('SIGKILL');
    await record(50);
    await expect.poll(second.leads, WITHIN).toBe(true);
    await expect.poll(() => delivered('hub-2').length, WITHIN).toBe(50);
    expect((await second.query('/api/v1/fleet')).status).toBe(200);
    // Each event once: what was acknowledged before the kill is not sent again.
    expect(delivered().toSorted()).toEqual(recorded.toSorted());
  },
  LONG_MS,
);

test(
  'a hub that was frozen until another one led sends nothing more, and stands by',
  async () => {
    const { record, delivered, start } = await startWorld();
    const first = await start('hub-1');
    await expect.poll(first.leads, WITHIN).toBe(true);
    const second = await start('hub-2');
    await record(10);
    await expect.poll(first.cursor, WITHIN).toBe(10);
    first.signal('SIGSTOP');
    await record(10);
    await expect.poll(() => delivered('hub-2').length, WITHIN).toBe(10);
    // It wakes up with events that it has not sent, and with more to come.
    await record(500);
    first.signal('SIGCONT');
    await record(500);
    await expect.poll(() => new Set(delivered()).size, WITHIN).toBe(1_020);
    await expect.poll(async () => (await first.query('/api/v1/fleet')).status, WITHIN).toBe(503);
    expect([delivered('hub-1').length, delivered('hub-2').length]).toEqual([10, 1_010]);
    await second.stop();
    await expect.poll(first.leads, WITHIN).toBe(true);
    await record(10);
    await expect.poll(() => delivered('hub-1').length, WITHIN).toBe(20);
  },
  LONG_MS,
);

test(
  'a hub that is cut off from the database waits, and gives way to one that is not',
  async () => {
    const { database, record, recorded, delivered, start } = await startWorld();
    const proxy = await startDatabaseProxy(database.port);
    cleanups.push(() => proxy.close());
    const first = await start('hub-1', { ...database, port: proxy.port });
    await expect.poll(first.leads, WITHIN).toBe(true);
    const second = await start('hub-2');
    await record(10);
    await expect.poll(first.cursor, WITHIN).toBe(10);
    proxy.swallow('everything');
    await record(10);
    await expect.poll(() => delivered('hub-2').length, WITHIN).toBe(10);
    await expect.poll(first.leads, WITHIN).toBe(false);
    proxy.restore();
    await expect.poll(async () => (await first.query('/api/v1/fleet')).status, WITHIN).toBe(503);
    expect((await first.query('/readyz')).status).toBe(200);
    await record(10);
    await expect.poll(() => delivered('hub-2').length, WITHIN).toBe(20);
    expect(delivered().toSorted()).toEqual(recorded.toSorted());
    expect(await second.leads()).toBe(true);
  },
  LONG_MS,
);
