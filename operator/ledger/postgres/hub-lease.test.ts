import { afterEach, describe, expect, test } from 'vitest';
import { startDatabaseProxy } from '../../../e2e/postgres/proxy.ts';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { createScaledClock } from '../../telemetry/testing/scaled-clock.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { usePostgres } from '../testing/postgres-ledger.ts';
import { HubLease, LOCK_HUB_LEASE } from './hub-lease.ts';
import { openSession } from './session.ts';

const used = usePostgres();
/** Time runs 20 times as fast: 15 s of a lease take 0.75 s. */
const clock = createScaledClock(20);
const WITHIN = { timeout: 20_000, interval: 10 };
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A process that wants to lead, and what it did. */
function candidate(database: LedgerDatabase, owner: string) {
  const lease = new HubLease({ database, owner, clock, logger: silentLogger });
  const stopping = new AbortController();
  const led: number[] = [];
  let isLeading = false;
  const running = lease.run(stopping.signal, async (epoch, signal) => {
    led.push(epoch);
    isLeading = true;
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    isLeading = false;
  });
  const stop = async (): Promise<void> => {
    stopping.abort();
    await running;
  };
  cleanups.push(stop);
  return { lease, led, isLeading: () => isLeading, stop };
}

/** A way to a database that can be cut. */
async function throughProxy(database: LedgerDatabase) {
  const proxy = await startDatabaseProxy(database.port);
  cleanups.push(() => proxy.close());
  return { proxy, database: { ...database, port: proxy.port } };
}

describe('the row of a hub', () => {
  test('is one process’s at a time, and another one’s at once after a clean stop', async () => {
    const database = await used.server().createDatabase();
    const first = candidate(database, 'hub-1');
    await expect.poll(first.isLeading, WITHIN).toBe(true);
    const second = candidate(database, 'hub-2');
    await expect.poll(() => second.lease.seen.owner, WITHIN).toBe('hub-1');
    expect(second.led).toEqual([]);
    const stoppedAt = clock.monotonic();
    await first.stop();
    await expect.poll(second.isLeading, WITHIN).toBe(true);
    expect([first.led, second.led]).toEqual([[1], [2]]);
    expect(clock.monotonic() - stoppedAt).toBeLessThan(15_000);
  });

  test('is not acted upon by a holder that is cut off before another one has it, and ends its work only then', async () => {
    const database = await used.server().createDatabase();
    const way = await throughProxy(database);
    const first = candidate(way.database, 'hub-1');
    await expect.poll(first.isLeading, WITHIN).toBe(true);
    const second = candidate(database, 'hub-2');
    await expect.poll(() => second.lease.seen.owner, WITHIN).toBe('hub-1');
    way.proxy.swallow('everything');
    let wereBothTrusted = false;
    const isFollowed = (): boolean => {
      wereBothTrusted ||= second.lease.isTrusted() && first.lease.isTrusted();
      return second.isLeading();
    };
    await expect.poll(isFollowed, { timeout: 20_000, interval: 1 }).toBe(true);
    expect([wereBothTrusted, first.isLeading()]).toEqual([false, true]);
    way.proxy.restore();
    await expect.poll(first.isLeading, WITHIN).toBe(false);
    expect([first.led, second.led]).toEqual([[1], [2]]);
  }, 60_000);

  test('stays its holder’s where the database was away from everybody', async () => {
    const database = await used.server().createDatabase();
    const way = await throughProxy(database);
    const first = candidate(way.database, 'hub-1');
    await expect.poll(first.isLeading, WITHIN).toBe(true);
    const second = candidate(way.database, 'hub-2');
    await expect.poll(() => second.lease.seen.owner, WITHIN).toBe('hub-1');
    way.proxy.lead(1);
    way.proxy.cut();
    await expect.poll(() => first.lease.isTrusted(30_000), WITHIN).toBe(false);
    way.proxy.lead(database.port);
    await expect.poll(() => first.lease.isTrusted(), WITHIN).toBe(true);
    expect([first.led, second.led, first.isLeading()]).toEqual([[1], [], true]);
  }, 60_000);

  test('is renewed while writes by it are under way, and claimed only after them', async () => {
    const database = await used.server().createDatabase();
    const first = candidate(database, 'hub-1');
    await expect.poll(first.isLeading, WITHIN).toBe(true);
    const writer = await openSession(database, 60_000);
    cleanups.push(() => writer.end());
    await writer.run([{ text: 'begin' }, { text: LOCK_HUB_LEASE, values: [] }]);
    const lockedAt = clock.monotonic();
    await expect.poll(() => clock.monotonic() - lockedAt, WITHIN).toBeGreaterThan(15_000);
    expect(first.lease.isTrusted()).toBe(true);
    await first.stop();
    const second = candidate(database, 'hub-2');
    await expect.poll(() => second.lease.seen.problem, WITHIN).toContain('lock timeout');
    expect(second.led).toEqual([]);
    await writer.run([{ text: 'commit' }]);
    await expect.poll(second.isLeading, WITHIN).toBe(true);
  }, 60_000);
});
