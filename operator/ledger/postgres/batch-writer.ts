import type { LedgerDurability } from '../../config/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { ledgerFailure } from '../failures.ts';
import type { LedgerFailure } from '../ledger.ts';
import type { RequestOutcome } from '../writer.ts';
import { dayOfAppend, ensureDay } from './days.ts';
import type { StreamView } from './decode-rows.ts';
import { isMissingPartition, toLedgerFailure } from './failures.ts';
import type { KnownStream } from './known-stream.ts';
import { LockedBatches } from './locked-batches.ts';
import type { PostgresRequest } from './plan-batch.ts';
import type { SeriesCache } from './series-cache.ts';
import type { Session } from './session.ts';
import type { Contents } from './state.ts';
import { commit, rollback, UnknownOutcomeError } from './transaction.ts';
import type { BatchWrite } from './write-batch.ts';
import type { WriterSession } from './writer-session.ts';
import { touchWriter } from './writers.ts';

export interface BatchWriterOptions {
  readonly owner: string;
  readonly durability: LedgerDurability;
  readonly known: KnownStream;
  readonly series: SeriesCache;
  readonly session: WriterSession;
  readonly clock: Pick<Clock, 'now'>;
  readonly view: () => StreamView;
  readonly onConflict: (event: UsageEvent) => void;
}

const ATTEMPTS = 3;

/** Writes batches, each in a transaction that is tried again while nothing of it is stored. */
export class BatchWriter {
  readonly #options: BatchWriterOptions;
  /** Days whose partition is known to be there. */
  readonly #days = new Set<string>();
  readonly #batches: LockedBatches;

  constructor(options: BatchWriterOptions) {
    this.#options = options;
    this.#batches = new LockedBatches({ ...options, days: this.#days });
  }

  /** Partitions may have come and gone. */
  forgetDays(): void {
    this.#days.clear();
  }

  /** Writes one batch. What became of a commit that was not confirmed is found out before anything else is written. */
  async write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    const { known, session } = this.#options;
    let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not connected');
    for (let tries = 0; tries < ATTEMPTS; tries++) {
      const unresolved = await session.unresolved();
      if (known.stopped() !== undefined) break;
      if (unresolved !== undefined) {
        failure = unresolved;
        continue;
      }
      const result = await this.#attempt(requests);
      if (!('kind' in result)) return result;
      failure = result;
      if (result.cause === 'full') break;
    }
    return requests.map(() => known.stopped() ?? failure);
  }

  async #attempt(
    requests: readonly PostgresRequest[],
  ): Promise<readonly RequestOutcome[] | LedgerFailure> {
    const { known, series, clock, onConflict } = this.#options;
    const offered = requests.flatMap((request) =>
      request.kind === 'append' ? request.events : [],
    );
    const now = clock.now();
    const before = known.contents();
    const day = dayOfAppend(before, now);
    let session: Session | undefined;
    try {
      session = await this.#options.session.connected();
      if (offered.length > 0 && !this.#days.has(day)) {
        await ensureDay(session, day);
        this.#days.add(day);
      }
      const locked = await this.#batches.write(session, requests, offered, now);
      if ('kind' in locked) return (await this.#leave(session, before)) ?? locked;
      const { plan, write } = locked;
      const failure =
        write === undefined
          ? await this.#leave(session, before)
          : await this.#commit(session, write, before);
      if (failure !== undefined) return failure;
      for (const event of plan.conflicts) onConflict(event);
      return plan.outcomes;
    } catch (error) {
      // No commit was sent, so nothing of it is stored.
      session?.destroy();
      known.read(before);
      series.clear();
      if (isMissingPartition(error)) this.#days.clear();
      return known.told(toLedgerFailure('writing', error));
    }
  }

  /**
   * Ends a transaction that writes nothing of a batch. What it has read of other processes is known only if it lasts, as for
   * {@link Store.refresh}: what one of them has stored is no duplicate before.
   */
  async #leave(session: Session, before: Contents): Promise<LedgerFailure | undefined> {
    const { known, owner, durability } = this.#options;
    const { state } = known.contents();
    if (state.batch === before.state.batch || durability === 'storage') {
      await rollback(session);
      return undefined;
    }
    try {
      await session.run([touchWriter(state.stream, owner)]);
      await commit(session);
      return undefined;
    } catch (error) {
      session.destroy();
      known.read(before);
      return known.told(toLedgerFailure('reading what is stored', error));
    }
  }

  async #commit(
    session: Session,
    write: BatchWrite,
    before: Contents,
  ): Promise<LedgerFailure | undefined> {
    const { known, series: cache } = this.#options;
    try {
      await commit(session);
      known.committed(write.contents);
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      session.destroy();
      known.read(before);
      const failure = known.told(toLedgerFailure('writing', error));
      known.unconfirmed(write.contents);
      const outcome = await this.#options.session.resolve();
      if (typeof outcome === 'object') return outcome;
      if (outcome === 'not stored') return failure;
    }
    for (const series of write.series) cache.remember(series);
    return undefined;
  }
}
