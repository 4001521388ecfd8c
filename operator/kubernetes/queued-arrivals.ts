import type { Logger } from '../telemetry/logger.ts';
import type { Turn } from '../telemetry/turn.ts';
import type { Projected, SourceHandler } from './source.ts';

/** What watches bring while nothing may change what is known of their objects: it waits, in order. */
export class QueuedArrivals {
  readonly #logger: Pick<Logger, 'error'>;
  #waiting: (() => void)[] | undefined;

  /** An exception of what has waited is logged, as one of a handler is. */
  constructor(logger: Pick<Logger, 'error'>) {
    this.#logger = logger;
  }

  get isQueueing(): boolean {
    return this.#waiting !== undefined;
  }

  /** From now on everything waits. */
  begin(): void {
    this.#waiting ??= [];
  }

  /** Calls it at once, or in its turn when the others are released. */
  take(arrival: () => void): void {
    if (this.#waiting === undefined) arrival();
    else this.#waiting.push(arrival);
  }

  /** A handler that waits while arrivals queue. */
  handler<T extends Projected>(handler: SourceHandler<T>): SourceHandler<T> {
    return {
      upserted: (next, previous, arrival) =>
        this.take(() => handler.upserted(next, previous, arrival)),
      deleted: (last, arrival) => this.take(() => handler.deleted(last, arrival)),
    };
  }

  /** Calls everything that waits. */
  release(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const arrival of waiting) this.#call(arrival);
  }

  /** The same with time for others in between; what arrives meanwhile comes last. */
  async releaseInTurns(turn: Turn): Promise<void> {
    for (const arrival of this.#waiting ?? []) {
      if (turn.isOver) await turn.next();
      this.#call(arrival);
    }
    this.#waiting = undefined;
  }

  #call(arrival: () => void): void {
    try {
      arrival();
    } catch (error) {
      this.#logger.error('[controller] a change that waited cannot be applied', { error });
    }
  }
}
