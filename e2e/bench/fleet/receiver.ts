import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** Events of one stream and window that came in one request. */
export interface Delivered {
  readonly source: string;
  /** As events have it. */
  readonly windowStart: string;
  readonly events: number;
  /** When they were acknowledged, milliseconds since the epoch. */
  readonly at: number;
}

export interface BenchReceiver {
  readonly url: string;
  readonly pid: number;
  /** Of all that has come, in the order in which it came. */
  readonly delivered: readonly Delivered[];
  /** Events so far. */
  total(): number;
  stop(): void;
}

/** Starts a webhook as a process of its own, whose clock is this machine's. */
export async function startBenchReceiver(): Promise<BenchReceiver> {
  const child: ChildProcess = fork(join(import.meta.dirname, 'receiver-process.ts'), {
    execArgv: [],
  });
  const [ready] = (await once(child, 'message')) as [{ readonly url: string }];
  const delivered: Delivered[] = [];
  let total = 0;
  child.on('message', (one: Delivered) => {
    delivered.push(one);
    total += one.events;
  });
  return {
    url: ready.url,
    pid: child.pid ?? 0,
    delivered,
    total: () => total,
    stop: () => void child.kill(),
  };
}
