import { type ChildProcess, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { prepareShim, type TraceFiles } from '../disk/shim.ts';
import type { Moment } from './idle-clock.ts';
import type { End, LifeOrder, Message, Order } from './messages.ts';

/** What came of one life, as seen from outside. */
export interface LifeReport {
  /** Undefined when the process was killed. */
  readonly end: End | undefined;
  readonly acknowledged: readonly number[];
  readonly wrong: readonly string[];
  readonly moment: Moment;
}

export interface LifeHooks {
  /** Kills it so many real milliseconds after the start. */
  readonly killAfterMs?: number;
  /** It stands still; resolves with the true time at which it goes on. */
  readonly onWaiting?: (lockDeleted: boolean, moment: Moment) => Promise<number>;
}

/** A process with the operator's ledger and delivery engine in it. */
export interface Subject {
  readonly alive: boolean;
  /** Where the shim keeps what it saw; undefined where the disk is sound. */
  readonly trace: TraceFiles | undefined;
  live(order: LifeOrder, hooks?: LifeHooks): Promise<LifeReport>;
  close(): Promise<void>;
}

export interface SubjectOptions {
  /** For the shim's files and, below it, the directories it watches. */
  readonly scratch: string;
  readonly faultyDisk: boolean;
  /** Syncs do nothing. */
  readonly withoutSync: boolean;
}

const SCRIPT = join(import.meta.dirname, 'process.ts');
const ENDLESS_MS = 180_000;

export async function startSubject(options: SubjectOptions): Promise<Subject> {
  const { scratch, faultyDisk, withoutSync: forgetSyncs } = options;
  const faulty = faultyDisk
    ? await prepareShim(scratch, join(scratch, 'data'), { forgetSyncs })
    : undefined;
  const args = faulty === undefined ? [] : [faulty.control, faulty.trace.file];
  const child = spawn(process.execPath, [SCRIPT, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    // Most of a start is the compiler's; many processes are started, one after the other was killed.
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: join(scratch, 'compiled'),
      ...faulty?.environment,
    },
  });
  const errors: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString('utf8')));
  const exited = new Promise<string>((resolve) => {
    child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  let listener: (message: Message) => void = () => undefined;
  createInterface({ input: child.stdout }).on('line', (line) => {
    listener(JSON.parse(line) as Message);
  });
  const send = (order: Order): void => void child.stdin.write(`${JSON.stringify(order)}\n`);
  child.stdin.on('error', () => undefined);

  return {
    get alive() {
      return child.exitCode === null && child.signalCode === null;
    },
    trace: faulty?.trace,
    live: async (order, hooks = {}) => {
      const acknowledged: number[] = [];
      const wrong: string[] = [];
      let moment = order.start;
      const { promise: ended, resolve: end } = Promise.withResolvers<End>();
      listener = (message) => {
        switch (message.kind) {
          case 'acknowledged':
            acknowledged.push(message.request);
            return;
          case 'wrong':
            wrong.push(message.text);
            return;
          case 'passed':
            moment = { elapsed: message.elapsed, stepped: message.stepped };
            return;
          case 'waiting':
            void hooks
              .onWaiting?.(message.lockDeleted, moment)
              .then((elapsed) => send({ kind: 'go-on', elapsed }));
            return;
          case 'ended':
            end(message);
        }
      };
      send({ kind: 'live', ...order });
      const timers = timersOf(child, hooks.killAfterMs);
      const outcome = await Promise.race([ended, exited]);
      for (const timer of timers) clearTimeout(timer);
      if (typeof outcome === 'string' && outcome !== 'SIGKILL') {
        throw new Error(`faults: the process ended by itself: ${outcome}\n${errors.join('')}`);
      }
      if (typeof outcome === 'string' && order.death?.how !== 'killed') {
        throw new Error(`faults: a life did not end within ${ENDLESS_MS} ms\n${errors.join('')}`);
      }
      return {
        end: typeof outcome === 'string' ? undefined : outcome,
        acknowledged,
        wrong,
        moment,
      };
    },
    close: async () => {
      child.kill('SIGKILL');
      await exited;
      if (faulty !== undefined) rmSync(faulty.directory, { recursive: true, force: true });
    },
  };
}

function timersOf(child: ChildProcess, killAfterMs: number | undefined): NodeJS.Timeout[] {
  const times = [ENDLESS_MS, ...(killAfterMs === undefined ? [] : [killAfterMs])];
  return times.map((ms) => setTimeout(() => child.kill('SIGKILL'), ms));
}
