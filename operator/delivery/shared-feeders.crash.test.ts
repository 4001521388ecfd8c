import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../config/settings.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../ledger/testing/events.ts';
import { usePostgres } from '../ledger/testing/postgres-ledger.ts';
import { joinTestStream, type TestReplica } from '../ledger/testing/postgres-replicas.ts';

const used = usePostgres();
const NAMES = ['a', 'b', 'c', 'd'];
const WITHIN = { timeout: 30_000, interval: 20 };
const TEST_MS = 60_000;

/** One request with usage, as the billing system got it. */
interface Call {
  readonly destination: string;
  readonly replica: string;
  readonly ids: readonly string[];
  readonly at: number;
}

interface BillingSystem {
  readonly url: string;
  readonly calls: readonly Call[];
  /** Keeps answers to itself from now on, or gives them again. */
  hold(isHeld: boolean): void;
  close(): Promise<void>;
}

let closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
});

async function startBillingSystem(): Promise<BillingSystem> {
  const calls: Call[] = [];
  const waiting: ServerResponse[] = [];
  let held = false;
  const server: Server = createServer((request, response) => {
    void json(request).then((body) => {
      const events = [body].flat() as { readonly id: string; readonly type: string }[];
      const ids = events.flatMap(({ id, type }) => (type.includes('.usage.') ? [id] : []));
      const { 'x-replica': replica } = request.headers;
      const destination = request.url?.slice(1) ?? '';
      if (ids.length > 0) {
        calls.push({ destination, replica: String(replica), ids, at: performance.now() });
      }
      if (held && ids.length > 0) waiting.push(response);
      else response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    hold: (isHeld) => {
      held = isHeld;
      if (!held) for (const response of waiting.splice(0)) response.end();
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface World {
  readonly database: LedgerDatabase;
  readonly meter: TestReplica;
  readonly billing: BillingSystem;
  replica(name: string, factor?: number): ChildProcess;
  /** Closes windows all the time. */
  meterOn(): void;
  /** Ids that a destination was given, in the order of first calls. */
  taken(destination: string): readonly string[];
  /** Which replicas feed which destinations, by the calls since `since`. */
  feeders(since: number): ReadonlyMap<string, ReadonlySet<string>>;
  /** Every destination has every event of the ledger, in its order, and the cursors say so. */
  complete(): Promise<void>;
}

async function createWorld(): Promise<World> {
  const database = await used.server().createDatabase();
  const meter = await joinTestStream(database);
  closers.push(() => meter.ledger.close());
  await meter.lead();
  const billing = await startBillingSystem();
  closers.push(() => billing.close());
  const ending = new AbortController();
  const taken = (destination: string): readonly string[] => [
    ...new Set(billing.calls.flatMap((call) => (call.destination === destination ? call.ids : []))),
  ];
  const stored: string[] = [];
  const write = async (): Promise<void> => {
    for (let window = 0; !ending.signal.aborted; window++) {
      const start = TEST_WINDOW_START + window * TEST_WINDOW_MS;
      const events = testWindow(start, 3);
      const outcome = await meter.ledger.append({ events, windowEnd: start + TEST_WINDOW_MS });
      if (outcome.kind === 'failed') throw new Error(outcome.message);
      stored.push(...events.map(({ id }) => id));
      await delay(40);
    }
  };
  let writing: Promise<void> | undefined;
  closers.push(async () => {
    ending.abort();
    await writing;
  });
  return {
    database,
    meter,
    billing,
    taken,
    replica: (name, factor = 1) => {
      const script = new URL('./testing/replica-process.ts', import.meta.url).pathname;
      const { port, name: of } = database;
      const args = [script, String(port), of, billing.url, NAMES.join(), name, String(factor)];
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
      closers.push(() => void child.kill('SIGKILL'));
      return child;
    },
    meterOn: () => {
      writing = write();
    },
    feeders: (since) => {
      const found = new Map<string, Set<string>>(NAMES.map((name) => [name, new Set()]));
      for (const call of billing.calls) {
        if (call.at >= since) found.get(call.destination)?.add(call.replica);
      }
      return found;
    },
    complete: async () => {
      ending.abort();
      await writing;
      for (const name of NAMES) await expect.poll(() => taken(name), WITHIN).toEqual(stored);
      const atHead = NAMES.map((destination) => ({ destination, sequence: stored.length }));
      await expect
        .poll(
          () =>
            meter.ledger.cursors().map(({ destination, sequence }) => ({ destination, sequence })),
          WITHIN,
        )
        .toEqual(atHead);
    },
  };
}

/** Two replicas that feed two destinations each, under way. */
async function twoReplicas(factor?: number) {
  const world = await createWorld();
  const children = new Map(['one', 'two'].map((name) => [name, world.replica(name, factor)]));
  world.meterOn();
  await expect
    .poll(() => countByReplica(world.feeders(performance.now() - 1_000)), WITHIN)
    .toEqual({ one: 2, two: 2 });
  const child = (name: string): ChildProcess => {
    const found = children.get(name);
    if (found === undefined) throw new Error(`no replica: ${name}`);
    return found;
  };
  return { ...world, child };
}

function countByReplica(feeders: ReadonlyMap<string, ReadonlySet<string>>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const names of feeders.values()) {
    for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** Seconds until the last destination of one replica was fed by the other. */
async function takeover(world: World, from: number, by: string): Promise<number> {
  const all = Object.fromEntries([[by, NAMES.length]]);
  await expect.poll(() => countByReplica(onlyOf(world.feeders(from), by)), WITHIN).toEqual(all);
  const firsts = NAMES.map(
    (name) =>
      world.billing.calls.find(
        ({ destination, replica, at }) => at >= from && destination === name && replica === by,
      )?.at ?? Number.POSITIVE_INFINITY,
  );
  return (Math.max(...firsts) - from) / 1_000;
}

function onlyOf(
  feeders: ReadonlyMap<string, ReadonlySet<string>>,
  replica: string,
): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(
    [...feeders].map(([name, replicas]) => [
      name,
      new Set([...replicas].filter((one) => one === replica)),
    ]),
  );
}

describe('feeders that are shared out between two processes', () => {
  test(
    'go on within 15 seconds when one of them is killed, and no event is left out',
    async () => {
      const world = await twoReplicas();
      world.child('one').kill('SIGKILL');
      const seconds = await takeover(world, performance.now(), 'two');
      expect(seconds).toBeLessThan(15);
      await world.complete();
    },
    TEST_MS,
  );

  test(
    'go on within a second when one of them is stopped, and no event is sent twice',
    async () => {
      const world = await twoReplicas();
      const stopped = world.child('one');
      stopped.kill('SIGTERM');
      await once(stopped, 'exit');
      const seconds = await takeover(world, performance.now(), 'two');
      expect(seconds).toBeLessThan(1);
      await world.complete();
      expect(repeats(world.billing.calls)).toEqual([]);
    },
    TEST_MS,
  );

  test(
    'are shared out anew when another one comes, and no event is sent twice',
    async () => {
      const world = await createWorld();
      const shares = () => countByReplica(world.feeders(performance.now() - 1_000));
      world.replica('one');
      world.meterOn();
      await expect.poll(shares, WITHIN).toEqual({ one: 4 });
      world.replica('two');
      await expect.poll(shares, WITHIN).toEqual({ one: 2, two: 2 });
      await world.complete();
      expect(repeats(world.billing.calls)).toEqual([]);
    },
    TEST_MS,
  );

  test(
    'are not fed by one that wakes up after another has taken over: what was under way is repeated with the same ids alone',
    async () => {
      const factor = 10;
      const world = await twoReplicas(factor);
      world.billing.hold(true);
      // Both are in the midst of a request for each of their destinations.
      await delay(300);
      const sleeper = world.child('one');
      sleeper.kill('SIGSTOP');
      const asleepAt = performance.now();
      world.billing.hold(false);
      await takeover(world, asleepAt, 'two');
      const wokenAt = performance.now();
      sleeper.kill('SIGCONT');
      await delay(1_000);
      sleeper.kill('SIGKILL');
      const before = new Set(
        world.billing.calls.flatMap((call) => (call.at < asleepAt ? call.ids : [])),
      );
      // Requests that it begins by then are of leases that it was given anew, of which it has read everything.
      const twice = repeats(world.billing.calls).filter(({ at }) => at > asleepAt);
      expect(twice.flatMap(({ ids }) => ids.filter((id) => !before.has(id)))).toEqual([]);
      expect(wokenAt).toBeGreaterThan(asleepAt);
      await world.complete();
    },
    TEST_MS,
  );
});

/** The calls that had ids which their destination was given before, with those ids. */
function repeats(calls: readonly Call[]): readonly Call[] {
  const seen = new Set<string>();
  return calls.flatMap((call) => {
    const again = call.ids.filter((id) => seen.has(`${call.destination} ${id}`));
    for (const id of call.ids) seen.add(`${call.destination} ${id}`);
    return again.length === 0 ? [] : [{ ...call, ids: again }];
  });
}
