import type { LedgerDatabase } from '../settings/settings.ts';
import type { ReadinessCheck } from '../http/views.ts';
import { readStreamState, type SeenStream } from '../ledger/postgres/stream-state.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

const POLL_MS = 2_000;
/** A candidate takes the Lease only after an answer within this time. */
const CANDIDATE_MS = 5_000;
/** A leader releases the Lease after this time without an answer. */
const LEADER_MS = 30_000;
/** After an outage a candidate waits this long for a leader that still has its timelines. */
const PRECEDENCE_MS = 10_000;
/** A standby is ready for this long after an answer. */
export const READY_MS = 60_000;

/**
 * Reads the row of the stream every two seconds, on a leader and on a standby. The row decides who
 * may hold the Lease, who is ready, and whether another process has led since.
 */
export class DatabasePoll {
  readonly #options;
  #seen: SeenStream | undefined;
  #answeredAt = -Infinity;
  /** Start of the current series of answered reads (monotonic). */
  #answeringSince = -Infinity;
  #failure: string | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(options: {
    readonly database: LedgerDatabase;
    /** CLUSTER_NAME. */
    readonly source: string;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /** Reads the row repeatedly until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#options.clock.sleep(POLL_MS, signal).catch(() => undefined);
      if (!signal.aborted) await this.poll();
    }
  }

  /**
   * Returns why this process may not hold the Lease now, or undefined. `holds`: it holds the Lease.
   * `hasTimelines`: it led last and can continue from its timelines.
   */
  obstacle({ holds, hasTimelines }: { holds: boolean; hasTimelines: boolean }): string | undefined {
    const now = this.#options.clock.monotonic();
    if (now - this.#answeredAt > (holds ? LEADER_MS : CANDIDATE_MS)) {
      return `the database does not answer: ${this.#failure ?? 'not read yet'}`;
    }
    if (this.#seen?.schema === 'newer') return NEWER;
    const isNewlyBack = now - this.#answeringSince < PRECEDENCE_MS;
    return isNewlyBack && !hasTimelines
      ? 'the database has answered for less than 10 seconds'
      : undefined;
  }

  /** Returns whether another process has led since this one received the epoch. */
  isPassed(epoch: number): boolean {
    return this.#seen !== undefined && this.#seen.epoch > epoch;
  }

  /** Calls the listener after each answer. The returned function ends the subscription. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Readiness checks of a standby that depend on the database. */
  readiness(): readonly ReadinessCheck[] {
    const isReached = this.#options.clock.monotonic() - this.#answeredAt <= READY_MS;
    const isKnown = this.#seen?.schema !== 'newer';
    return [
      {
        name: 'database',
        ok: isReached,
        ...(!isReached && { detail: `not reached: ${this.#failure ?? 'not read yet'}` }),
      },
      { name: 'schema', ok: isKnown, ...(!isKnown && { detail: NEWER }) },
    ];
  }

  /** Reads the row once. */
  async poll(): Promise<void> {
    const { database, source, clock, logger } = this.#options;
    const seen = await readStreamState(database, { source });
    if (seen.kind === 'failed') {
      if (seen.message !== this.#failure) logger.warn(`[ledger] ${seen.message}`);
      this.#failure = seen.message;
      return;
    }
    const now = clock.monotonic();
    if (this.#failure !== undefined) {
      logger.info('[ledger] the database answers again');
      this.#answeringSince = now;
    }
    this.#failure = undefined;
    this.#seen = seen;
    this.#answeredAt = now;
    for (const listener of this.#listeners) listener();
  }
}

const NEWER = 'the tables of the database are newer than this program: run the newer program';
