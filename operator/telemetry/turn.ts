import { setImmediate } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** Ten turns of this length, one after the other, still answer a probe within half a second. */
const TURN_MS = 25;

/**
 * Long work on the main thread, done in short turns so that probes and people are answered in between.
 * Whoever shares one of these has one turn at a time among them.
 */
export class Turn {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #began: number;
  #othersMs = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#began = clock.monotonic();
  }

  /** Whether it is somebody else's turn. */
  get isOver(): boolean {
    return this.#clock.monotonic() - this.#began >= TURN_MS;
  }

  /** How long others have had theirs so far, milliseconds. */
  get othersMs(): number {
    return this.#othersMs;
  }

  /** Takes one step after the other, with turns for others in between; gives what they come to. */
  async take<T>(steps: Iterator<unknown, T>): Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (this.isOver) await this.next();
    }
  }

  /** Begins the next turn, after everybody else had theirs. */
  async next(): Promise<void> {
    const ended = this.#clock.monotonic();
    const before = this.#last;
    this.#last = (async () => {
      await before;
      await setImmediate();
    })();
    await this.#last;
    this.#began = this.#clock.monotonic();
    this.#othersMs += this.#began - ended;
  }
}
