import { fork } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startPostgres } from '../../../operator/ledger/testing/postgres-server.ts';
import { reportsToLead } from '../../rig/leader-log.ts';
import type { Size } from '../scale/population.ts';
import {
  answerOf,
  end,
  prepareOperator,
  type RunningOperator,
  type ShippedOperator,
} from '../scale/shipped-operator.ts';

export interface TakeOverOptions {
  readonly size: Size;
  readonly windowSeconds: number;
  readonly times: number;
  /** An empty directory of its own. */
  readonly directory: string;
}

/** The latest that a window was closed, seconds after its end and the settling delay. */
export interface TakeOverFigures {
  readonly afterKill: number;
  readonly afterStop: number;
}

/** The default of settlingDelay. */
const SETTLING_MS = 3_000;
/** So long before the window is due the process ends: its Lease was renewed just before. */
const BEFORE_DUE_MS = 1_000;
const START_MS = 300_000;
const POLL_MS = 100;

export async function measureTakeOver(options: TakeOverOptions): Promise<TakeOverFigures> {
  const { size, directory, windowSeconds } = options;
  const script = join(import.meta.dirname, '../scale/api-server.ts');
  const api = fork(script, [JSON.stringify({ size, changesPerSecond: size.pods / 1_500 })]);
  const server = await startPostgres();
  try {
    const { port } = await answerOf<{ port: number }>(api);
    const { name, user, port: databasePort } = await server.createDatabase();
    const prepare = async (pod: string): Promise<Pod> => {
      const home = join(directory, pod);
      await mkdir(home);
      const environment = {
        POD_NAME: pod,
        LEDGER_URL: `postgresql://${user}@127.0.0.1:${databasePort}/${name}?sslmode=disable`,
        LEDGER_DURABILITY: 'storage',
      };
      const shipped = { directory: home, api: { port }, windowSeconds, environment };
      return new Pod(await prepareOperator(shipped));
    };
    const pods = [await prepare('meterfeed-a'), await prepare('meterfeed-b')] as const;
    try {
      return await measure(pods, options);
    } finally {
      for (const pod of pods) await pod.end('stop');
    }
  } finally {
    await server.stop();
    await end(api, 'SIGTERM');
  }
}

async function measure(
  pods: readonly [Pod, Pod],
  { times, windowSeconds }: TakeOverOptions,
): Promise<TakeOverFigures> {
  const windowMs = windowSeconds * 1_000;
  let [leader, standby] = pods;
  await leader.start();
  const lateAfter = async (how: 'kill' | 'stop'): Promise<number> => {
    await standby.start();
    // Both have seen a whole window.
    await leader.closes(Math.ceil(Date.now() / windowMs + 1) * windowMs, START_MS);
    const due = Math.ceil((Date.now() + 2 * BEFORE_DUE_MS) / windowMs) * windowMs;
    await delay(due + SETTLING_MS - BEFORE_DUE_MS - Date.now());
    const ended = leader.end(how);
    const closedAt = await standby.closes(due, START_MS);
    await ended;
    [leader, standby] = [standby, leader];
    return Math.max(0, closedAt - due - SETTLING_MS) / 1_000;
  };
  const figures = { afterKill: 0, afterStop: 0 };
  for (let time = 0; time < times; time += 1) {
    figures.afterKill = Math.max(figures.afterKill, await lateAfter('kill'));
    figures.afterStop = Math.max(figures.afterStop, await lateAfter('stop'));
  }
  return figures;
}

class Pod {
  readonly #shipped: ShippedOperator;
  #running: RunningOperator | undefined;

  constructor(shipped: ShippedOperator) {
    this.#shipped = shipped;
  }

  /** Resolves when it is ready: to lead, or to take over. */
  async start(): Promise<void> {
    this.#running = this.#shipped.start();
    const { address } = this.#running;
    await this.#running.until(START_MS, async () => (await fetch(`${address}/readyz`)).ok);
  }

  /** Waits until it leads and has closed a window with this end; when that was, milliseconds since the epoch. */
  async closes(end: number, patienceMs: number): Promise<number> {
    const deadline = Date.now() + patienceMs;
    for (;;) {
      if ((await this.#lastWindowEnd()) >= end) return Date.now();
      if (Date.now() > deadline) throw new Error('takeover: the window is not closed');
      await delay(POLL_MS);
    }
  }

  async end(how: 'kill' | 'stop'): Promise<void> {
    await this.#running?.[how]();
    this.#running = undefined;
  }

  async #lastWindowEnd(): Promise<number> {
    const address = this.#running?.address ?? '';
    if ((await reportsToLead(address)) !== true) return 0;
    const answer = await fetch(`${address}/api/v1/status`);
    if (answer.status !== 200) return 0;
    const { last_window_end: end } = (await answer.json()) as { readonly last_window_end?: string };
    return end === undefined ? 0 : Date.parse(end);
  }
}
