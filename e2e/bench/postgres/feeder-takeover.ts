import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LedgerDatabase } from '../../../operator/config/settings.ts';
import { joinTestStream } from '../../../operator/ledger/testing/postgres-replicas.ts';
import { until } from '../../processes/until.ts';
import { append } from '../ledger-append.ts';
import { benchWindow } from '../ledger-events.ts';

export interface TakeoverFigures {
  readonly rounds: number;
  /** Seconds from the kill of a replica until the other one has fed the last of its destinations; the longest. */
  readonly killed: number;
  /** The same where it is stopped in good order, from its end. */
  readonly stopped: number;
}

const REPLICA = join(import.meta.dirname, '../../../operator/delivery/testing/replica-process.ts');
const DESTINATIONS = ['a', 'b', 'c', 'd'];
const WINDOW_EVENTS = 10;
const APPEND_EVERY_MS = 40;
const RECENT_MS = 1_000;
const PATIENCE = { patienceMs: 60_000, lookMs: 20 };

/** Two replicas that feed two destinations of a stream each; one of them ends, and another one takes its place. */
export async function measureFeederTakeover(
  database: LedgerDatabase,
  rounds: number,
): Promise<TakeoverFigures> {
  const receiver = await startReceiver();
  const meter = await joinTestStream(database);
  await meter.lead();
  const ended = new AbortController();
  const writing = appendWindows(meter.ledger, ended.signal);
  const start = (name: string): Feeding => ({
    name,
    child: spawn(
      process.execPath,
      [REPLICA, String(database.port), database.name, receiver.url, DESTINATIONS.join(), name],
      { stdio: ['ignore', 'inherit', 'inherit'] },
    ),
  });
  let [leaving, staying] = [start('replica-0'), start('replica-1')];
  const takeover = async (round: number, signal: NodeJS.Signals): Promise<number> => {
    await fed(() => {
      const since = performance.now() - RECENT_MS;
      return [leaving, staying].every(({ name }) => receiver.fedBy(name, since).length === 2);
    });
    leaving.child.kill(signal);
    if (signal === 'SIGTERM') await once(leaving.child, 'exit');
    const from = performance.now();
    const { name } = staying;
    await fed(() => receiver.fedBy(name, from).length === DESTINATIONS.length);
    const last = Math.max(...receiver.fedBy(name, from));
    [leaving, staying] = [staying, start(`replica-${round + 2}`)];
    return (last - from) / 1_000;
  };
  try {
    const killed: number[] = [];
    const stopped: number[] = [];
    for (let round = 0; round < rounds; round++) {
      killed.push(await takeover(2 * round, 'SIGKILL'));
      stopped.push(await takeover(2 * round + 1, 'SIGTERM'));
    }
    return { rounds, killed: Math.max(...killed), stopped: Math.max(...stopped) };
  } finally {
    for (const { child } of [leaving, staying]) child.kill('SIGKILL');
    ended.abort();
    await writing;
    await meter.ledger.close();
    receiver.stop();
  }
}

interface Feeding {
  readonly name: string;
  readonly child: ChildProcess;
}

/** Closes windows all the time. */
async function appendWindows(
  ledger: Parameters<typeof append>[0],
  signal: AbortSignal,
): Promise<void> {
  for (let window = 0; !signal.aborted; window++) {
    await append(ledger, benchWindow(window, WINDOW_EVENTS));
    await delay(APPEND_EVERY_MS);
  }
}

/** Webhooks that take everything, each at the path of its name. */
interface Receiver {
  readonly url: string;
  /** When a replica first called each destination that it has called since; milliseconds of this process. */
  fedBy(replica: string, since: number): readonly number[];
  stop(): void;
}

async function startReceiver(): Promise<Receiver> {
  const calls: { readonly replica: string; readonly path: string; readonly at: number }[] = [];
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => {
      const replica = String(request.headers['x-replica']);
      calls.push({ replica, path: request.url ?? '', at: performance.now() });
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    fedBy: (replica, since) => {
      const firsts = new Map<string, number>();
      for (const call of calls) {
        if (call.replica !== replica || call.at < since || firsts.has(call.path)) continue;
        firsts.set(call.path, call.at);
      }
      return [...firsts.values()];
    },
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Waits until the destinations are fed in some way. */
function fed(holds: () => boolean): Promise<void> {
  return until(holds, 'takeover: the destinations are not fed', PATIENCE);
}
