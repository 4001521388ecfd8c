import type { Clock } from '../../telemetry/clock.ts';

/** How long the current step may take to end after the loop is stopped. */
const STOP_GRACE_MS = 10_000;

/**
 * What the loop does after a step:
 *
 * 1. `continue`: the next step at once.
 * 2. `end`: no more steps.
 * 3. `wait`: the next step after a wake-up, after `changed` resolves, or after `ms` milliseconds.
 * 4. `blocked`: the next step after `ms` milliseconds. Only {@link Loop.wakeNow} shortens this
 *    wait.
 */
export type NextStep =
  | { readonly kind: 'continue' }
  | { readonly kind: 'end' }
  | {
      readonly kind: 'wait';
      readonly ms?: number;
      readonly changed: (signal: AbortSignal) => Promise<void>;
    }
  | { readonly kind: 'blocked'; readonly ms: number };

/** Repeats a step until it is stopped. */
export class Loop {
  readonly #clock: Clock;
  readonly #step: (signal: AbortSignal) => Promise<NextStep>;
  readonly #wakeSignal = new WakeSignal();
  readonly #urgentSignal = new WakeSignal();
  #stopping = new AbortController();
  #hard = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #closed = false;

  /** `step` must not throw. Its signal is aborted if the step must end. */
  constructor(clock: Clock, step: (signal: AbortSignal) => Promise<NextStep>) {
    this.#clock = clock;
    this.#step = step;
  }

  start(): void {
    if (this.#closed) return;
    this.#stopping = new AbortController();
    this.#hard = new AbortController();
    this.#running = this.#run();
  }

  /** Stops after the current step, which it aborts after ten seconds. It stays stopped. */
  async stop(): Promise<void> {
    this.#closed = true;
    await this.#halt();
  }

  /** Runs an action between two steps, while no step runs. */
  async pausedWhile<T>(action: () => Promise<T>): Promise<T> {
    await this.#halt();
    try {
      return await action();
    } finally {
      this.start();
    }
  }

  /** Wakes a waiting loop. A blocked one stays blocked. */
  wake(): void {
    this.#wakeSignal.raise();
  }

  /** Wakes a waiting or blocked loop, at the request of an operator. */
  wakeNow(): void {
    this.#urgentSignal.raise();
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const next = await this.#step(this.#hard.signal);
      if (next.kind === 'end') return;
      if (next.kind !== 'continue') await this.#sleep(next);
    }
  }

  async #sleep(next: Exclude<NextStep, { readonly kind: 'continue' | 'end' }>): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    signal.addEventListener('abort', end, { once: true });
    const waits = [this.#urgentSignal.wait(ended.signal)];
    if (next.ms !== undefined) waits.push(this.#clock.sleep(next.ms, ended.signal));
    if (next.kind === 'wait') {
      waits.push(this.#wakeSignal.wait(ended.signal), next.changed(ended.signal));
    }
    await Promise.race(waits).catch(() => undefined);
    end();
    signal.removeEventListener('abort', end);
    await Promise.allSettled(waits);
  }

  async #halt(): Promise<void> {
    this.#stopping.abort();
    const hard = this.#hard;
    const ended = new AbortController();
    const cut = this.#clock.sleep(STOP_GRACE_MS, ended.signal).then(
      () => hard.abort(),
      () => undefined,
    );
    await this.#running;
    ended.abort();
    await cut;
  }
}

/** Wakes a waiting loop. A signal that is raised while nothing waits ends the next wait at once. */
export class WakeSignal {
  #raised = false;
  #wake: (() => void) | undefined;

  raise(): void {
    this.#raised = true;
    this.#wake?.();
  }

  /** Resolves if raised, at once if it was raised since the last wait. Also resolves on abort. */
  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#wake = undefined;
        this.#raised = false;
        signal.removeEventListener('abort', done);
        resolve();
      };
      if (this.#raised || signal.aborted) return done();
      this.#wake = done;
      signal.addEventListener('abort', done, { once: true });
    });
  }
}
