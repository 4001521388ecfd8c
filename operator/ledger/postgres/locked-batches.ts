import type { LedgerDurability } from '../../config/settings.ts';
import type { LedgerFailure } from '../ledger.ts';
import type { EncodedEvent } from '../writer.ts';
import { dayOfAppend } from './days.ts';
import type { StreamView } from './decode-rows.ts';
import { refusalBy } from './fences.ts';
import { lookUpStatements, storedById } from './find-stored.ts';
import type { KnownStream } from './known-stream.ts';
import { type LockedStream, lockStream } from './lock-stream.ts';
import { matchAll, type Matches } from './match-series.ts';
import { type BatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import { BEGIN_ANEW, NO_STANDBY, NOT_AS_KNOWN, TAKEN_OVER } from './refusals.ts';
import type { SeriesCache } from './series-cache.ts';
import type { Session } from './session.ts';
import { type BatchWrite, writeBatch } from './write-batch.ts';

export interface LockedBatchOptions {
  readonly known: KnownStream;
  readonly owner: string;
  readonly durability: LedgerDurability;
  readonly series: SeriesCache;
  /** Days whose partition is known to be there. */
  readonly days: ReadonlySet<string>;
  readonly view: () => StreamView;
}

/** So many events are compared while the server takes the lock; it would have to wait for more. */
const MATCHED_MEANWHILE = 1_000;
const NO_MATCHES: Matches = new Map();

/** What a transaction comes to; its commit is left to be sent, unless nothing is to be written. */
export interface LockedBatch {
  readonly plan: BatchPlan;
  readonly write: BatchWrite | undefined;
}

/** The transaction of a batch, from the lock of its stream up to the commit. */
export class LockedBatches {
  readonly #options: LockedBatchOptions;

  constructor(options: LockedBatchOptions) {
    this.#options = options;
  }

  /** Takes the stream's row, decides what the requests come to, and writes it but for the commit. */
  async write(
    session: Session,
    requests: readonly PostgresRequest[],
    offered: readonly EncodedEvent[],
    now: number,
  ): Promise<LockedBatch | LedgerFailure> {
    const { known, days, owner, series: cache } = this.#options;
    const { segments, state } = known.contents();
    const { stream } = state;
    const lookUps = lookUpStatements(offered, stream, segments);
    const locking = lockStream(session, { stream, owner, requests, lookUps });
    const early = lookUps.length === 0 ? this.#writeEarly(session, requests, now) : undefined;
    const matches =
      early === undefined ? matchAll(offered.slice(0, MATCHED_MEANWHILE), cache) : NO_MATCHES;
    const found = await this.#goOn(session, await locking, early !== undefined);
    if ('kind' in found) {
      // It may wait for an answer, and nothing that it sends then may come behind the end of the transaction.
      await early?.catch(() => undefined);
      return found;
    }
    if (early !== undefined) return early;
    const before = known.contents();
    const day = dayOfAppend(before, now);
    const hasDay = days.has(day) || before.segments.some((segment) => segment.day === day);
    if (offered.length > 0 && !hasDay) return BEGIN_ANEW;
    const { locked, isReadAgain } = found;
    const again = isReadAgain
      ? await session.run(lookUpStatements(offered, stream, before.segments))
      : locked.found;
    const rows = again.flatMap((result) => result.rows);
    const stored = await storedById(this.#options.view(), rows, offered);
    const isMeter = this.#notMeterFor(requests) === undefined;
    const plan = planBatch(requests, before, stored, refusalBy(isMeter, locked.leases));
    const idle =
      plan.head === before.state.head &&
      plan.accepted.length === 0 &&
      plan.records.size === 0 &&
      plan.cursors.size === 0 &&
      plan.lastWindowEnd === before.state.lastWindowEnd;
    if (idle) return { plan, write: undefined };
    return {
      plan,
      write: await writeBatch(session, { before, plan, cache, matches, owner, day, now }),
    };
  }

  /** Goes on from what is locked. Gives why nothing may be written, or what has been since the lock was asked for may not stay. */
  async #goOn(
    session: Session,
    locked: LockedStream | undefined,
    isWritten: boolean,
  ): Promise<{ readonly locked: LockedStream; readonly isReadAgain: boolean } | LedgerFailure> {
    const { known, durability } = this.#options;
    if (locked === undefined) return known.stop(TAKEN_OVER);
    if (isWritten && !known.isAsKnown(locked.state)) return NOT_AS_KNOWN;
    const continued = await known.goOn(session, locked.state, locked.writer);
    if (typeof continued === 'object') return continued;
    const isSafe = durability !== 'standby' || locked.hasStandby;
    return isSafe ? { locked, isReadAgain: continued === 'read again' } : known.told(NO_STANDBY);
  }

  /**
   * Writes what nothing that the lock tells can change unless somebody else has written: the server stores it without waiting
   * for another word. Undefined where it may well be in vain. It rejects like any write.
   */
  #writeEarly(
    session: Session,
    requests: readonly PostgresRequest[],
    now: number,
  ): Promise<LockedBatch> | undefined {
    const { known, owner, series: cache } = this.#options;
    const byLease = requests.some(({ fence }) => typeof fence === 'object');
    if (byLease || !known.isUndisturbed()) return undefined;
    if (this.#notMeterFor(requests) !== undefined) return undefined;
    const before = known.contents();
    const day = dayOfAppend(before, now);
    const plan = planBatch(requests, before, new Map(), refusalBy(true, []));
    if (plan.accepted.length === 0) return undefined;
    const context = { before, plan, cache, matches: NO_MATCHES, owner, day, now };
    const writing = writeBatch(session, context).then((write) => ({ plan, write }));
    // Whoever waits for it may have to wait for something else first.
    writing.catch(() => undefined);
    return writing;
  }

  /** As {@link KnownStream.notMeter}, where any of the requests is the meter's. */
  #notMeterFor(requests: readonly PostgresRequest[]): LedgerFailure | undefined {
    const asks = requests.some(({ fence = 'meter' }) => fence === 'meter');
    return asks ? this.#options.known.notMeter() : undefined;
  }
}
