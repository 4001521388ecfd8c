import { setImmediate as nextIteration } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** Long work in one iteration of the event loop takes at most this long, milliseconds. */
const SLICE_MS = 25;

/**
 * Splits long work on the main thread into slices, so that probes and requests are answered in
 * between. All work with the same clock shares one slice in each iteration of the event loop. Ten
 * tasks with a slice each would together block the loop as long as one long task.
 */
export class TimeSlice {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #loop: EventLoop;
  #othersMs = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#loop = loopOf(clock);
  }

  /** Whether the slice is used up. */
  get isOver(): boolean {
    return this.#loop.workedMs >= SLICE_MS;
  }

  /** How long other work has run between the slices, milliseconds. */
  get othersMs(): number {
    return this.#othersMs;
  }

  /** Runs steps in slices, with other work in between. Returns the result of the last step. */
  async take<T>(steps: Iterator<unknown, T>): Promise<T> {
    for (;;) {
      if (this.isOver) await this.next();
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  /** Waits for the next slice, after other work has run. */
  async next(): Promise<void> {
    const ended = this.#clock.monotonic();
    await this.#loop.next();
    this.#othersMs += this.#clock.monotonic() - ended;
  }
}

class EventLoop {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** When the first long work of this iteration began; undefined before. */
  #began: number | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Milliseconds since the first long work of this iteration began. */
  get workedMs(): number {
    const now = this.#clock.monotonic();
    this.#began ??= this.#begin(now);
    return now - this.#began;
  }

  /** Resolves in its own iteration. */
  next(): Promise<void> {
    const before = this.#last;
    this.#last = (async () => {
      await before;
      await nextIteration();
      this.#began = this.#begin(this.#clock.monotonic());
    })();
    return this.#last;
  }

  #begin(now: number): number {
    setImmediate(() => {
      if (this.#began === now) this.#began = undefined;
    });
    return now;
  }
}

const LOOPS = new WeakMap<Pick<Clock, 'monotonic'>, EventLoop>();

function loopOf(clock: Pick<Clock, 'monotonic'>): EventLoop {
  const loop = LOOPS.get(clock) ?? new EventLoop(clock);
  LOOPS.set(clock, loop);
  return loop;
}
