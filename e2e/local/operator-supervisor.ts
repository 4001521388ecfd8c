import { renameSync } from 'node:fs';
import { relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type OperatorOptions, type RunningOperator, startOperator } from './operator-process.ts';

export interface SupervisorOptions extends OperatorOptions {
  /** Told in one line what happened and what comes next. */
  readonly progress: (line: string) => void;
}

/** An operator that is started again when it ends unasked. */
export interface SupervisedOperator {
  /** `http://127.0.0.1:<port>`, the same after every start. */
  readonly address: string;
  stop(): Promise<void>;
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
/** On a busy machine it takes as long as it takes; Ctrl-C ends the wait. */
const START_TIMEOUT_MS = Number.POSITIVE_INFINITY;
/** Whoever has lived this long did not die of the start. */
const STEADY_MS = 60_000;

/**
 * Starts the operator, and starts it again whenever it ends, after a wait that grows while it ends soon. The log of
 * the one that ended is kept beside the new one. Rejects when the first start fails.
 */
export async function superviseOperator(options: SupervisorOptions): Promise<SupervisedOperator> {
  const stopping = new AbortController();
  const signal = AbortSignal.any([options.signal, stopping.signal]);
  const waiting = { ...options, startTimeoutMs: START_TIMEOUT_MS, signal };
  const supervisor = new Supervisor(waiting);
  const first = await startOperator(waiting);
  const supervised = supervisor.run(first);
  return {
    address: first.address,
    stop: async () => {
      stopping.abort();
      await supervised;
    },
  };
}

class Supervisor {
  readonly #options: SupervisorOptions;
  #waitMs = FIRST_WAIT_MS;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** Until the signal is aborted; then ends the operator. */
  async run(first: RunningOperator): Promise<void> {
    const { signal } = this.#options;
    let operator: RunningOperator | undefined = first;
    while (!signal.aborted) {
      operator ??= await this.#again();
      if (operator === undefined) continue;
      const began = performance.now();
      const how = await Promise.race([operator.exited, whenAborted(signal)]);
      if (how === undefined) break;
      operator = undefined;
      if (performance.now() - began > STEADY_MS) this.#waitMs = FIRST_WAIT_MS;
      this.#report(`ended (${how})`);
    }
    await operator?.stop();
  }

  /** The next operator, after the wait; undefined when it did not start either. */
  async #again(): Promise<RunningOperator | undefined> {
    const { signal, progress } = this.#options;
    await delay(this.#waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return undefined;
    this.#waitMs = Math.min(LONGEST_WAIT_MS, 2 * this.#waitMs);
    try {
      const operator = await startOperator(this.#options);
      progress(`the operator is ready again at ${operator.address}`);
      return operator;
    } catch (error) {
      const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
      if (!signal.aborted) this.#report(`did not start (${reason})`);
      return undefined;
    }
  }

  #report(what: string): void {
    const { files, progress } = this.#options;
    renameSync(files.operatorLog, files.lastOperatorLog);
    const log = relative(process.cwd(), files.lastOperatorLog);
    const seconds = this.#waitMs / 1000;
    progress(`the operator ${what}; its log is ${log}; it is started again in ${seconds} s`);
  }
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
