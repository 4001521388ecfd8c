import pLimit from 'p-limit';
import type { LedgerDatabase, LedgerDurability } from '../../config/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { EncodedEvent, RequestOutcome } from '../writer.ts';
import { goesOn } from './continuity.ts';
import { dayOfAppend, ensureDay } from './days.ts';
import type { StreamView } from './decode-rows.ts';
import { isMissingPartition, toLedgerFailure } from './failures.ts';
import { refusalBy } from './fences.ts';
import { lookUpStatements, storedById } from './find-stored.ts';
import { KnownStream, type KnownStreamOptions, LOCK_TIMEOUT_MS } from './known-stream.ts';
import { type LockedStream, lockStream } from './lock-stream.ts';
import { matchAll, type Matches } from './match-series.ts';
import { type BatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import type { Reads } from './readers.ts';
import {
  BEGIN_ANEW,
  FORGOTTEN,
  NO_STANDBY,
  NOT_AS_KNOWN,
  TAKEN_OVER,
  wentBack,
} from './refusals.ts';
import type { SeriesCache } from './series-cache.ts';
import { openSession, type Session } from './session.ts';
import { type Contents, readContents, readContentsNow } from './state.ts';
import { beginText, commit, rollback, UnknownOutcomeError } from './transaction.ts';
import { type BatchWrite, writeBatch } from './write-batch.ts';
import { forgetWriter, touchIdleWriter, touchWriter } from './writers.ts';

/** A stream, and the only place of this process that writes to it: one transaction at a time. */
export interface Store {
  contents(): Contents;
  view(): StreamView;
  /** Writes one batch. What became of a commit that was not confirmed is found out before anything else is written. */
  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]>;
  /** Runs something else of the meter on the writer's connection, between two batches; then reads what there is. */
  between<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Makes this process the meter, whose events have this REGION: whoever was it before is refused from now on. Gives why it could not. */
  lead(region: string): Promise<LedgerFailure | undefined>;
  /** Reads what other processes have written. Gives why it could not. */
  refresh(): Promise<LedgerFailure | undefined>;
  close(): Promise<void>;
}

export interface StoreOptions extends KnownStreamOptions {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  readonly series: SeriesCache;
  readonly reads: Reads;
  readonly clock: Clock;
  /** How long the server may take to answer, a commit's wait for the standby included. */
  readonly answerMs: number;
  readonly onConflict: (event: UsageEvent) => void;
}

const ATTEMPTS = 3;
/** So many events are compared while the server takes the lock; it would have to wait for more. */
const MATCHED_MEANWHILE = 1_000;
const NO_MATCHES: Matches = new Map();

export function createStore(options: StoreOptions): Store {
  return new StreamStore(options);
}

/** What has been found out about a transaction before anything is written. */
interface Locked {
  readonly plan: BatchPlan;
  readonly write: BatchWrite | undefined;
}

class StreamStore implements Store {
  readonly #options: StoreOptions;
  readonly #known: KnownStream;
  readonly #oneAtATime = pLimit(1);
  /** Days whose partition is known to be there. */
  readonly #days = new Set<string>();
  #session: Session | undefined;

  constructor(options: StoreOptions) {
    this.#options = options;
    this.#known = new KnownStream(options);
  }

  contents(): Contents {
    return this.#known.contents();
  }

  view(): StreamView {
    const { series, reads } = this.#options;
    return { contents: this.#known.contents(), series, query: reads.query, copyOut: reads.copyOut };
  }

  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    return this.#oneAtATime(() => this.#write(requests));
  }

  between<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#oneAtATime(async () => {
      const refused = (await this.#unresolved()) ?? this.#known.notMeter();
      if (refused !== undefined) throw new LedgerReadError(refused);
      const session = await this.#connected();
      try {
        const result = await work(session);
        this.#days.clear();
        const { stream } = this.#known.contents().state;
        await session.run([touchIdleWriter(stream, this.#options.owner)]);
        this.#known.read(await readContentsNow(session, stream));
        const taken = this.#known.notMeter();
        if (taken !== undefined) throw new LedgerReadError(taken);
        return result;
      } catch (error) {
        session.destroy();
        throw error;
      }
    });
  }

  lead(region: string): Promise<LedgerFailure | undefined> {
    return this.#alone('taking the stream over', async (session) => {
      const { owner } = this.#options;
      const { stream } = this.#known.contents().state;
      await session.run([
        { text: beginText(LOCK_TIMEOUT_MS) },
        {
          text: `update meterfeed.stream set epoch = epoch + 1, owner = $2, region = $3
            where stream = $1`,
          values: [stream, owner, region],
          rows: 1,
        },
      ]);
      const found = await readContents(session, stream);
      if (!(await goesOn(session, this.#known.contents().state, found))) {
        await rollback(session);
        return this.#known.stop(wentBack(this.#known.contents().state, found.state));
      }
      await commit(session);
      this.#known.led(found);
      return undefined;
    });
  }

  refresh(): Promise<LedgerFailure | undefined> {
    return this.#alone('reading what is stored', async (session) => {
      const { state } = this.#known.contents();
      const found = await this.#readLasting(session);
      if (found === undefined) return this.#known.stop(FORGOTTEN);
      if (!(await goesOn(session, state, found))) {
        return this.#known.stop(wentBack(state, found.state));
      }
      this.#known.read(found);
      return undefined;
    });
  }

  /**
   * What is stored for good, whoever has written it: another process's commit whose wait for a standby was cut short can be seen, and is gone after a
   * failover. So it is read with a write of our own, which is confirmed only after all that is visible before. Undefined
   * where the stream does not know this process.
   */
  async #readLasting(session: Session): Promise<Contents | undefined> {
    const { owner, durability } = this.#options;
    const { stream } = this.#known.contents().state;
    if (durability === 'storage') return readContentsNow(session, stream);
    const [, touched] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS, 'repeatable read') },
      touchWriter(stream, owner),
    ]);
    const found = await readContents(session, stream);
    await commit(session);
    return touched?.rows.length === 0 ? undefined : found;
  }

  async close(): Promise<void> {
    await this.#oneAtATime(async () => {
      const { stream } = this.#known.contents().state;
      const ending = this.#known.isResolved() ? this.#session : undefined;
      // What stays of a process that cannot say farewell is forgotten in time.
      await ending?.run(forgetWriter(stream, this.#options.owner)).catch(() => undefined);
      await this.#session?.end();
    });
  }

  /** Runs something between two batches, once it is known what became of the last one. */
  #alone(
    what: string,
    work: (session: Session) => Promise<LedgerFailure | undefined>,
  ): Promise<LedgerFailure | undefined> {
    return this.#oneAtATime(async () => {
      const unresolved = await this.#unresolved();
      if (unresolved !== undefined) return unresolved;
      let session: Session | undefined;
      try {
        session = await this.#connected();
        return await work(session);
      } catch (error) {
        session?.destroy();
        return this.#known.told(toLedgerFailure(what, error));
      }
    });
  }

  /** Why nothing may be done here now: this process has stopped, or it is not known what became of its last batch. */
  async #unresolved(): Promise<LedgerFailure | undefined> {
    const stopped = this.#known.stopped();
    if (stopped !== undefined || this.#known.isResolved()) return stopped;
    const outcome = await this.#resolve();
    return typeof outcome === 'object' ? outcome : undefined;
  }

  async #write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not connected');
    for (let tries = 0; tries < ATTEMPTS; tries++) {
      const unresolved = await this.#unresolved();
      if (this.#known.stopped() !== undefined) break;
      if (unresolved !== undefined) {
        failure = unresolved;
        continue;
      }
      const result = await this.#attempt(requests);
      if (!('kind' in result)) return result;
      failure = result;
      if (result.cause === 'full') break;
    }
    return requests.map(() => this.#known.stopped() ?? failure);
  }

  async #attempt(
    requests: readonly PostgresRequest[],
  ): Promise<readonly RequestOutcome[] | LedgerFailure> {
    const offered = requests.flatMap((request) =>
      request.kind === 'append' ? request.events : [],
    );
    const now = this.#options.clock.now();
    const before = this.#known.contents();
    const day = dayOfAppend(before, now);
    let session: Session | undefined;
    try {
      session = await this.#connected();
      if (offered.length > 0 && !this.#days.has(day)) {
        await ensureDay(session, day);
        this.#days.add(day);
      }
      const locked = await this.#lock(session, requests, offered, now);
      if ('kind' in locked) return (await this.#leave(session, before)) ?? locked;
      const { plan, write } = locked;
      const failure =
        write === undefined
          ? await this.#leave(session, before)
          : await this.#commit(session, write, before);
      if (failure !== undefined) return failure;
      for (const event of plan.conflicts) this.#options.onConflict(event);
      return plan.outcomes;
    } catch (error) {
      // No commit was sent, so nothing of it is stored.
      session?.destroy();
      this.#known.read(before);
      this.#options.series.clear();
      if (isMissingPartition(error)) this.#days.clear();
      return this.#known.told(toLedgerFailure('writing', error));
    }
  }

  /** Takes the stream's row, decides what the requests come to, and writes it but for the commit. */
  async #lock(
    session: Session,
    requests: readonly PostgresRequest[],
    offered: readonly EncodedEvent[],
    now: number,
  ): Promise<Locked | LedgerFailure> {
    const { owner, series: cache } = this.#options;
    const { segments, state } = this.#known.contents();
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
    const before = this.#known.contents();
    const day = dayOfAppend(before, now);
    const hasDay = this.#days.has(day) || before.segments.some((segment) => segment.day === day);
    if (offered.length > 0 && !hasDay) return BEGIN_ANEW;
    const { locked, isReadAgain } = found;
    const again = isReadAgain
      ? await session.run(lookUpStatements(offered, stream, before.segments))
      : locked.found;
    const rows = again.flatMap((result) => result.rows);
    const stored = await storedById(this.view(), rows, offered);
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
    if (locked === undefined) return this.#known.stop(TAKEN_OVER);
    if (isWritten && !this.#known.isAsKnown(locked.state)) return NOT_AS_KNOWN;
    const continued = await this.#known.goOn(session, locked.state, locked.writer);
    if (typeof continued === 'object') return continued;
    const isSafe = this.#options.durability !== 'standby' || locked.hasStandby;
    return isSafe
      ? { locked, isReadAgain: continued === 'read again' }
      : this.#known.told(NO_STANDBY);
  }

  /**
   * Writes what nothing that the lock tells can change unless somebody else has written: the server stores it without waiting
   * for another word. Undefined where it may well be in vain. It rejects like any write.
   */
  #writeEarly(
    session: Session,
    requests: readonly PostgresRequest[],
    now: number,
  ): Promise<Locked> | undefined {
    const { owner, series: cache } = this.#options;
    const byLease = requests.some(({ fence }) => typeof fence === 'object');
    if (byLease || !this.#known.isUndisturbed()) return undefined;
    if (this.#notMeterFor(requests) !== undefined) return undefined;
    const before = this.#known.contents();
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
    return asks ? this.#known.notMeter() : undefined;
  }

  /**
   * Ends a transaction that writes nothing of a batch. What it has read of other processes is known only if it lasts, as in {@link #readLasting}:
   * what one of them has stored is no duplicate before.
   */
  async #leave(session: Session, before: Contents): Promise<LedgerFailure | undefined> {
    const { state } = this.#known.contents();
    const { owner, durability } = this.#options;
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
      this.#known.read(before);
      return this.#known.told(toLedgerFailure('reading what is stored', error));
    }
  }

  async #commit(
    session: Session,
    write: BatchWrite,
    before: Contents,
  ): Promise<LedgerFailure | undefined> {
    try {
      await commit(session);
      this.#known.committed(write.contents);
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      session.destroy();
      this.#known.read(before);
      const failure = this.#known.told(toLedgerFailure('writing', error));
      this.#known.unconfirmed(write.contents);
      const outcome = await this.#resolve();
      if (typeof outcome === 'object') return outcome;
      if (outcome === 'not stored') return failure;
    }
    for (const series of write.series) this.#options.series.remember(series);
    return undefined;
  }

  /** Finds out what became of a commit that was not confirmed. Gives why it is not known. */
  async #resolve(): Promise<'stored' | 'not stored' | LedgerFailure> {
    let session: Session | undefined;
    try {
      session = await this.#connected();
      return await this.#known.findOut(session);
    } catch (error) {
      session?.destroy();
      return this.#known.told(toLedgerFailure('finding out what was stored', error));
    }
  }

  async #connected(): Promise<Session> {
    const { database, answerMs } = this.#options;
    if (this.#session?.usable() !== true) this.#session = await openSession(database, answerMs);
    return this.#session;
  }
}
