import pLimit from 'p-limit';
import type { LedgerDatabase, LedgerDurability } from '../../config/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { RequestOutcome } from '../writer.ts';
import { goesOn } from './continuity.ts';
import { dayOfAppend, ensureDay } from './days.ts';
import type { StreamView } from './decode-rows.ts';
import { isMissingPartition, toLedgerFailure } from './failures.ts';
import { KnownStream, type KnownStreamOptions, LOCK_TIMEOUT_MS } from './known-stream.ts';
import { LockedBatches } from './locked-batches.ts';
import type { PostgresRequest } from './plan-batch.ts';
import type { Reads } from './readers.ts';
import { FORGOTTEN, wentBack } from './refusals.ts';
import type { SeriesCache } from './series-cache.ts';
import { openSession, type Session } from './session.ts';
import { type Contents, readContents, readContentsNow } from './state.ts';
import { beginText, commit, rollback, UnknownOutcomeError } from './transaction.ts';
import type { BatchWrite } from './write-batch.ts';
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

export function createStore(options: StoreOptions): Store {
  return new StreamStore(options);
}

class StreamStore implements Store {
  readonly #options: StoreOptions;
  readonly #known: KnownStream;
  readonly #oneAtATime = pLimit(1);
  /** Days whose partition is known to be there. */
  readonly #days = new Set<string>();
  readonly #batches: LockedBatches;
  #session: Session | undefined;

  constructor(options: StoreOptions) {
    this.#options = options;
    this.#known = new KnownStream(options);
    this.#batches = new LockedBatches({
      ...options,
      known: this.#known,
      days: this.#days,
      view: () => this.view(),
    });
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
      const locked = await this.#batches.write(session, requests, offered, now);
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
