import type { Clock } from '../../telemetry/clock.ts';
import { countResults, retryDelayMs, type SettledEvent, withResults } from '../delivery-result.ts';
import { firstOf } from '../records/delivery-records.ts';
import { IDLE_LANE, type LaneOptions, type LaneReport } from './parked-lane.ts';

/** How long the answer to a replay waits for the outcome of the letters. */
const WAIT_MS = 20_000;

/** The outcome of replayed letters so far. `pending` letters are sent in the background. */
export interface ReplayResult {
  readonly replayed: number;
  readonly stillRejected: number;
  readonly pending: number;
}

/**
 * Sends dead letters again at the request of an operator. The write that settles a letter also
 * drops its record, so none is lost if the process ends in between.
 */
export class ReplayLane {
  readonly #options;
  /** A replay whose answer waits for the outcome of the letters. */
  readonly #sessions = new Set<{
    readonly waiting: Set<number>;
    replayed: number;
    stillRejected: number;
    readonly done: AbortController;
  }>();
  /** Monotonic ms; 0 at the start: earlier processes may have left letters. Undefined if none. */
  #retryAt: number | undefined = 0;
  #failures = 0;

  constructor(
    options: LaneOptions & {
      readonly clock: Clock;
      /** Numbers in [0, 1). */
      readonly random: () => number;
    },
  ) {
    this.#options = options;
  }

  /** Sends the letters in the next step. */
  wake(): void {
    this.#retryAt = this.#options.clock.monotonic();
    this.#failures = 0;
  }

  /** Milliseconds until the next attempt; undefined without letters. */
  dueIn(): number | undefined {
    if (this.#retryAt === undefined) return undefined;
    return Math.max(0, this.#retryAt - this.#options.clock.monotonic());
  }

  /** Waits until all these letters are settled, at most 20 s. Call it before sending one. */
  async follow(sequences: readonly number[]): Promise<ReplayResult> {
    const done = new AbortController();
    const session = { waiting: new Set(sequences), replayed: 0, stillRejected: 0, done };
    this.#sessions.add(session);
    if (sequences.length > 0) {
      await this.#options.clock.sleep(WAIT_MS, done.signal).catch(() => undefined);
    }
    this.#sessions.delete(session);
    const { replayed, stillRejected, waiting } = session;
    return { replayed, stillRejected, pending: waiting.size };
  }

  async step(signal: AbortSignal): Promise<LaneReport> {
    const { records, settlements, sendPass, destination, clock } = this.#options;
    if (this.#retryAt === undefined || this.#retryAt > clock.monotonic()) return IDLE_LANE;
    const letters = await firstOf(records.replay(), destination.limits.batchEvents);
    if (letters.length === 0) {
      this.#retryAt = undefined;
      return IDLE_LANE;
    }
    const { results, blocked } = await sendPass.send(letters, signal);
    const answered = withResults(letters, results);
    const outcome = await settlements.write(answered, ({ sequence }) =>
      records.dropReplay(sequence),
    );
    const settled = outcome.kind === 'written' ? answered : [];
    this.#report(settled);
    const complete = settled.length === letters.length;
    if (complete) this.#failures = 0;
    else this.#postpone(blocked?.afterMs);
    const accepted = countResults(settled, 'delivered');
    const report = { moved: complete, accepted, rejected: countResults(settled, 'dead') };
    return blocked?.kind === 'blocked' ? { ...report, blocked } : report;
  }

  #postpone(afterMs = 0): void {
    const { clock, random } = this.#options;
    this.#failures += 1;
    this.#retryAt = clock.monotonic() + Math.max(afterMs, retryDelayMs(this.#failures, random));
  }

  #report(letters: readonly SettledEvent[]): void {
    for (const session of this.#sessions) {
      for (const { sequence, result } of letters) {
        if (result.kind === 'parked' || !session.waiting.delete(sequence)) continue;
        if (result.kind === 'dead') session.stillRejected += 1;
        else session.replayed += 1;
      }
      if (session.waiting.size === 0) session.done.abort();
    }
  }
}
