import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startDatabaseProxy } from '../../../e2e/postgres/proxy.ts';
import type { LedgerDatabase } from '../../config/settings.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createScaledClock } from '../../telemetry/testing/scaled-clock.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Leases } from '../leases.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { usePostgres } from '../testing/postgres-ledger.ts';
import { joinTestStream } from '../testing/postgres-replicas.ts';
import { createPostgresLeases } from './leases.ts';

const used = usePostgres();
/** Ten seconds are one. */
const FACTOR = 10;
const fast = createScaledClock(FACTOR);
const WITHIN = { timeout: 20_000, interval: 10 };

interface Running {
  readonly leases: Leases;
  /** In good order: what is held is released. */
  readonly stop: () => Promise<void>;
}

let database: LedgerDatabase;
let running: Running[] = [];
let processes: ChildProcess[] = [];

beforeEach(async () => {
  database = await used.server().createDatabase();
  const { ledger } = await joinTestStream(database);
  await ledger.close();
});
afterEach(async () => {
  for (const child of processes) child.kill('SIGKILL');
  await Promise.all(running.map(({ stop }) => stop()));
  running = [];
  processes = [];
});

function start(
  names: readonly string[],
  options: { readonly clock?: Clock; readonly port?: number } = {},
): Running {
  const { clock = fast, port = database.port } = options;
  const leases = createPostgresLeases({
    database: { ...database, port },
    stream: 1,
    owner: `process ${running.length}`,
    team: 'operators',
    address: `http://10.0.0.${running.length}:8080`,
    clock,
    logger: silentLogger,
  });
  leases.want(names);
  // Whoever holds a lease that is to be given up releases it when its work has ended; here there is none.
  leases.subscribe(() => {
    for (const held of leases.held().values()) if (held.ending.aborted) void held.release();
  });
  const ending = new AbortController();
  const ended = leases.run(ending.signal);
  const one = {
    leases,
    stop: async () => {
      ending.abort();
      await ended;
    },
  };
  running.push(one);
  return one;
}

function trusted({ leases }: Running): readonly string[] {
  return [...leases.held().values()].flatMap((one) => (one.isTrusted() ? [one.name] : []));
}

/** Looks all the time whether two trust the same lease, until it is told to stop; gives what it saw. */
function watchTwice(all: readonly Running[]): () => Promise<readonly string[]> {
  const ending = new AbortController();
  const watching = (async () => {
    const twice = new Set<string>();
    while (!ending.signal.aborted) {
      const names = all.flatMap(trusted);
      for (const name of names) {
        if (names.indexOf(name) !== names.lastIndexOf(name)) twice.add(name);
      }
      await delay(2);
    }
    return [...twice];
  })();
  return () => {
    ending.abort();
    return watching;
  };
}

async function allHeld(all: readonly Running[], names: readonly string[]): Promise<void> {
  await expect.poll(() => all.flatMap(trusted).toSorted(), WITHIN).toEqual(names.toSorted());
}

const names = (count: number) => Array.from({ length: count }, (_, index) => `feeder/${index}`);

describe('leases on one server', () => {
  test('are shared out among twenty claimants, each to one at a time, and anew when half of them stop', async () => {
    const wanted = names(30);
    const all = Array.from({ length: 20 }, () => start(wanted));
    const twice = watchTwice(all);
    await allHeld(all, wanted);
    await expect.poll(() => Math.max(...all.map((one) => trusted(one).length)), WITHIN).toBe(2);
    const rest = all.slice(10);
    await Promise.all(all.slice(0, 10).map(({ stop }) => stop()));
    await allHeld(rest, wanted);
    await expect.poll(() => Math.max(...rest.map((one) => trusted(one).length)), WITHIN).toBe(3);
    expect(await twice()).toEqual([]);
  });

  test('of a process that stops in good order are taken within a second', async () => {
    const [one, other] = [
      start(names(4), { clock: systemClock }),
      start(names(4), { clock: systemClock }),
    ];
    await expect.poll(() => [one, other].map((of) => trusted(of).length), WITHIN).toEqual([2, 2]);
    await one.stop();
    const at = performance.now();
    await allHeld([other], names(4));
    expect(performance.now() - at).toBeLessThan(1_000);
  });

  test('tell where the holder is reached, and nothing of one that is gone', async () => {
    const one = start(names(1));
    await allHeld([one], names(1));
    const other = start(names(1));
    await expect
      .poll(() => other.leases.addressOf('feeder/0'), WITHIN)
      .toBe('http://10.0.0.0:8080');
    other.leases.want([]);
    await one.stop();
    await expect.poll(() => other.leases.addressOf('feeder/0'), WITHIN).toBeUndefined();
  });

  test('that nobody wants any more are given up', async () => {
    const one = start(names(2));
    await allHeld([one], names(2));
    one.leases.want(['feeder/1']);
    await allHeld([one], ['feeder/1']);
  });

  test('are not shaken by a wall clock that steps by hours', async () => {
    let step = 0;
    const stepping: Clock = { ...fast, now: () => fast.now() + step };
    const [one, other] = [start(names(2), { clock: stepping }), start(names(2))];
    await expect.poll(() => [one, other].map((of) => trusted(of).length), WITHIN).toEqual([1, 1]);
    const twice = watchTwice([one, other]);
    const held = [...one.leases.held().values()];
    for (step of [3_600_000, -7_200_000, 86_400_000]) await delay(300);
    expect(held.map(({ lost, ending }) => lost.aborted || ending.aborted)).toEqual([false]);
    expect(await twice()).toEqual([]);
  });

  test('leave connections open that nobody uses, where several are given up after one has broken', async () => {
    const proxy = await startDatabaseProxy(database.port);
    const one = start(names(8), { clock: systemClock, port: proxy.port });
    await allHeld([one], names(8));
    const held = [...one.leases.held().values()];
    proxy.cut();
    await Promise.all(held.map((lease) => lease.release()));
    // Now it is known to be broken.
    await Promise.all(held.map((lease) => lease.release()));
    await allHeld([one], names(8));
    const open = `select count(*) from pg_stat_activity
      where datname = '${database.name}' and application_name = 'meterfeed'`;
    expect(await used.server().query(open)).toEqual([{ count: '1' }]);
    await one.stop();
    await proxy.close();
  });

  test.each([5, 15, 60])(
    'are trusted by no two processes while the database is away for %i seconds, and all held afterwards',
    async (seconds) => {
      const proxy = await startDatabaseProxy(database.port);
      const [one, other] = [start(names(4), { port: proxy.port }), start(names(4))];
      await expect.poll(() => [one, other].map((of) => trusted(of).length), WITHIN).toEqual([2, 2]);
      const twice = watchTwice([one, other]);
      proxy.swallow('everything');
      await delay((seconds * 1_000) / FACTOR);
      // Less than three seconds may have passed since a renewal, and eight are trusted.
      expect(trusted(one).length).toBeLessThanOrEqual(seconds < 8 ? 2 : 0);
      proxy.restore();
      await expect.poll(() => [one, other].map((of) => trusted(of).length), WITHIN).toEqual([2, 2]);
      expect(await twice()).toEqual([]);
      await one.stop();
      await proxy.close();
    },
  );
});

describe('a holder that was asleep', () => {
  test('writes nothing more once another process has its lease, whatever it thinks', async () => {
    const [first, second] = [startProcess(), startProcess()];
    await expect.poll(() => first.written + second.written, WITHIN).toBeGreaterThan(10);
    const [holder, other] = first.written > 0 ? [first, second] : [second, first];
    holder.child.kill('SIGSTOP');
    const asleep = holder.newest;
    await expect.poll(() => other.written, WITHIN).toBeGreaterThan(10);
    expect(other.newest).toBe(asleep + 1);
    holder.child.kill('SIGCONT');
    const { written } = holder;
    await expect.poll(() => other.written, WITHIN).toBeGreaterThan(100);
    // It may have been in the midst of a write that the server had already.
    expect(holder.written - written).toBeLessThanOrEqual(1);
    expect(holder.newest).toBe(asleep);
    const record = 'select value from meterfeed.record';
    expect(await used.server().query(record, database.name)).toEqual([
      { value: String(asleep + 1) },
    ]);
  });

  test('that was killed is followed within 15 seconds', async () => {
    const holder = startProcess(1);
    await expect.poll(() => holder.written, WITHIN).toBeGreaterThan(0);
    const other = startProcess(1);
    await delay(1_000);
    holder.child.kill('SIGKILL');
    const at = performance.now();
    await expect.poll(() => other.written, WITHIN).toBeGreaterThan(0);
    expect(performance.now() - at).toBeLessThan(15_000);
  }, 40_000);
});

interface LeaseProcess {
  readonly child: ChildProcess;
  written: number;
  /** The epoch of its newest write. */
  newest: number;
}

function startProcess(factor = FACTOR): LeaseProcess {
  const script = new URL('../testing/lease-process.ts', import.meta.url).pathname;
  const args = [script, String(database.port), database.name, String(factor)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  processes.push(child);
  const one: LeaseProcess = { child, written: 0, newest: 0 };
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { kind, epoch }: { kind: string; epoch: number } = JSON.parse(line);
    if (kind !== 'written') return;
    one.written += 1;
    one.newest = epoch;
  });
  return one;
}
