import { setImmediate as nextRound } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** So much long work is done in one round of the event loop, milliseconds. */
const SLICE_MS = 25;

/**
 * Long work on the main thread, done in short turns so that probes and people are answered in between. All work of
 * one clock, whoever does it, has one turn at a time among it: ten that go on in the same round of the event loop
 * would together keep everybody waiting for as long as one that never stops.
 */
export class TimeSlice {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #loop: Loop;
  #othersMs = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#loop = loopOf(clock);
  }

  /** Whether it is somebody else's turn. */
  get isOver(): boolean {
    return this.#loop.workedMs >= SLICE_MS;
  }

  /** How long others have had theirs so far, milliseconds. */
  get othersMs(): number {
    return this.#othersMs;
  }

  /** Takes one step after the other, with turns for others in between; gives what they come to. */
  async take<T>(steps: Iterator<unknown, T>): Promise<T> {
    for (;;) {
      if (this.isOver) await this.next();
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  /** Begins the next turn, after everybody else had theirs. */
  async next(): Promise<void> {
    const ended = this.#clock.monotonic();
    await this.#loop.next();
    this.#othersMs += this.#clock.monotonic() - ended;
  }
}

/** One round of the event loop after the other. */
class Loop {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** When the first long work of this round began; undefined before. */
  #began: number | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Since the first long work of this round began. */
  get workedMs(): number {
    const now = this.#clock.monotonic();
    this.#began ??= this.#begin(now);
    return now - this.#began;
  }

  /** Resolves in a round of its own. */
  next(): Promise<void> {
    const before = this.#last;
    this.#last = (async () => {
      await before;
      await nextRound();
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

const LOOPS = new WeakMap<Pick<Clock, 'monotonic'>, Loop>();

function loopOf(clock: Pick<Clock, 'monotonic'>): Loop {
  const loop = LOOPS.get(clock) ?? new Loop(clock);
  LOOPS.set(clock, loop);
  return loop;
}
