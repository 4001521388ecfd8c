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
import { lockLeases, refusalBy } from './fences.ts';
import { lookUpStatements, storedById } from './find-stored.ts';
import { matchAll } from './match-series.ts';
import { type BatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import type { Reads } from './readers.ts';
import { BEGIN_ANEW, FORGOTTEN, NO_STANDBY, TAKEN_OVER, wentBack } from './refusals.ts';
import type { SeriesCache } from './series-cache.ts';
import { openSession, type Row, type Session } from './session.ts';
import {
  type Contents,
  readContents,
  readContentsNow,
  stateOf,
  STREAM_COLUMNS,
  type StreamState,
} from './state.ts';
import { beginText, commit, rollback, UnknownOutcomeError } from './transaction.ts';
import { type BatchWrite, writeBatch } from './write-batch.ts';
import { forgetWriter, selectWriter, touchIdleWriter, touchWriter } from './writers.ts';

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

export interface StoreOptions {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** Who this process is among those that write the stream. */
  readonly owner: string;
  /** That of the stream while this process is its meter; undefined while it is not. */
  readonly epoch: number | undefined;
  /** As it was when this process came. */
  readonly contents: Contents;
  readonly series: SeriesCache;
  readonly reads: Reads;
  readonly clock: Clock;
  /** How long the server may take to answer, a commit's wait for the standby included. */
  readonly answerMs: number;
  readonly onConflict: (event: UsageEvent) => void;
  readonly onError: (failure: LedgerFailure) => void;
}

const ATTEMPTS = 3;
const LOCK_TIMEOUT_MS = 5_000;
/** So many events are compared while the server takes the lock; it has to wait for more. */
const MATCHED_BEFORE = 1_000;

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
  readonly #oneAtATime = pLimit(1);
  /** Days whose partition is known to be there. */
  readonly #days = new Set<string>();
  #session: Session | undefined;
  #contents: Contents;
  #epoch: number | undefined;
  /** The last batch that this process was acknowledged, or the newest when it came. */
  #ownBatch: number;
  /** What may hold since a commit that was not confirmed. */
  #planned: Contents | undefined;
  #stopped: LedgerFailure | undefined;

  constructor(options: StoreOptions) {
    this.#options = options;
    this.#contents = options.contents;
    this.#epoch = options.epoch;
    this.#ownBatch = options.contents.state.batch;
  }

  contents(): Contents {
    return this.#contents;
  }

  view(): StreamView {
    const { series, reads } = this.#options;
    return { contents: this.#contents, series, query: reads.query, copyOut: reads.copyOut };
  }

  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    return this.#oneAtATime(() => this.#write(requests));
  }

  between<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#oneAtATime(async () => {
      const refused = (await this.#unresolved()) ?? this.#notMeter();
      if (refused !== undefined) throw new LedgerReadError(refused);
      const session = await this.#connected();
      try {
        const result = await work(session);
        this.#days.clear();
        const { stream } = this.#contents.state;
        await session.run([touchIdleWriter(stream, this.#options.owner)]);
        this.#contents = await readContentsNow(session, stream);
        const taken = this.#notMeter();
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
      const { stream } = this.#contents.state;
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
      if (!(await goesOn(session, this.#contents.state, found))) {
        await rollback(session);
        return this.#stop(wentBack(this.#contents.state, found.state));
      }
      await commit(session);
      this.#contents = found;
      this.#epoch = found.state.epoch;
      return undefined;
    });
  }

  refresh(): Promise<LedgerFailure | undefined> {
    return this.#alone('reading what is stored', async (session) => {
      const { state } = this.#contents;
      const found = await readContentsNow(session, state.stream);
      if (!(await goesOn(session, state, found))) return this.#stop(wentBack(state, found.state));
      this.#contents = found;
      return undefined;
    });
  }

  async close(): Promise<void> {
    await this.#oneAtATime(async () => {
      const { stream } = this.#contents.state;
      const ending = this.#planned === undefined ? this.#session : undefined;
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
        return this.#told(toLedgerFailure(what, error));
      }
    });
  }

  /** Why nothing may be done here now: this process has stopped, or it is not known what became of its last batch. */
  async #unresolved(): Promise<LedgerFailure | undefined> {
    if (this.#stopped !== undefined) return this.#stopped;
    if (this.#planned === undefined) return undefined;
    const outcome = await this.#resolve(this.#planned);
    return typeof outcome === 'object' ? outcome : undefined;
  }

  /** Why this process may not do what the meter does; undefined when it may. */
  #notMeter(): LedgerFailure | undefined {
    const { epoch } = this.#contents.state;
    if (epoch === this.#epoch) return undefined;
    // Never again, whatever the epoch will be, unless it is given the stream once more.
    this.#epoch = undefined;
    return this.#told(TAKEN_OVER);
  }

  async #write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not connected');
    for (let tries = 0; tries < ATTEMPTS; tries++) {
      const unresolved = await this.#unresolved();
      if (this.#stopped !== undefined) break;
      if (unresolved !== undefined) {
        failure = unresolved;
        continue;
      }
      const result = await this.#attempt(requests);
      if (!('kind' in result)) return result;
      failure = result;
      if (result.cause === 'full') break;
    }
    return requests.map(() => this.#stopped ?? failure);
  }

  async #attempt(
    requests: readonly PostgresRequest[],
  ): Promise<readonly RequestOutcome[] | LedgerFailure> {
    const offered = requests.flatMap((request) =>
      request.kind === 'append' ? request.events : [],
    );
    const now = this.#options.clock.now();
    const day = dayOfAppend(this.#contents, now);
    let session: Session | undefined;
    try {
      session = await this.#connected();
      if (offered.length > 0 && !this.#days.has(day)) {
        await ensureDay(session, day);
        this.#days.add(day);
      }
      const locked = await this.#lock(session, requests, offered, now);
      if ('kind' in locked) {
        await rollback(session);
        return locked;
      }
      const { plan, write } = locked;
      if (write === undefined) await rollback(session);
      else {
        const failure = await this.#commit(session, write);
        if (failure !== undefined) return failure;
      }
      for (const event of plan.conflicts) this.#options.onConflict(event);
      return plan.outcomes;
    } catch (error) {
      // No commit was sent, so nothing of it is stored.
      session?.destroy();
      this.#options.series.clear();
      if (isMissingPartition(error)) this.#days.clear();
      return this.#told(toLedgerFailure('writing', error));
    }
  }

  /** Takes the stream's row, decides what the requests come to, and writes it but for the commit. */
  async #lock(
    session: Session,
    requests: readonly PostgresRequest[],
    offered: readonly EncodedEvent[],
    now: number,
  ): Promise<Locked | LedgerFailure> {
    const { owner, durability, series: cache } = this.#options;
    const { stream } = this.#contents.state;
    const leases = lockLeases(stream, owner, requests);
    const answering = session.run([
      { text: beginText(LOCK_TIMEOUT_MS) },
      ...leases,
      {
        text: `select ${STREAM_COLUMNS}, current_setting('synchronous_standby_names') as standbys
          from meterfeed.stream where stream = $1 for update`,
        values: [stream],
      },
      selectWriter(stream, owner),
      ...lookUpStatements(offered, stream, this.#contents.segments),
    ]);
    // The server has something to do meanwhile.
    const matches = matchAll(offered.slice(0, MATCHED_BEFORE), cache);
    const answers = await answering;
    const [streams, writers, ...found] = answers.slice(1 + leases.length);
    const row = streams?.rows[0];
    if (row === undefined) return this.#stop(TAKEN_OVER);
    const continued = await this.#continue(session, stateOf(row), writers?.rows[0]);
    if (typeof continued === 'object') return continued;
    if (durability === 'standby' && row['standbys'] === '') return this.#told(NO_STANDBY);
    const day = dayOfAppend(this.#contents, now);
    const hasDay =
      this.#days.has(day) || this.#contents.segments.some((segment) => segment.day === day);
    if (offered.length > 0 && !hasDay) return BEGIN_ANEW;
    const again =
      continued === 'read again'
        ? await session.run(lookUpStatements(offered, stream, this.#contents.segments))
        : found;
    const rows = again.flatMap((result) => result.rows);
    const stored = await storedById(this.view(), rows, offered);
    const before = this.#contents;
    const isMeter = this.#notMeterFor(requests) === undefined;
    const leaseRows = leases.length > 0 ? (answers[1]?.rows ?? []) : [];
    const plan = planBatch(requests, before, stored, refusalBy(isMeter, leaseRows));
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

  /** As {@link #notMeter}, where any of the requests is the meter's. */
  #notMeterFor(requests: readonly PostgresRequest[]): LedgerFailure | undefined {
    const asks = requests.some(({ fence = 'meter' }) => fence === 'meter');
    return asks ? this.#notMeter() : undefined;
  }

  /**
   * Goes on from what the stream has now that it is locked: what other processes have written is read. Gives why
   * nothing may be written.
   */
  async #continue(
    session: Session,
    found: StreamState,
    writer: Row | undefined,
  ): Promise<'as known' | 'read again' | LedgerFailure> {
    const { state } = this.#contents;
    if (found.batch < state.batch) return this.#stop(wentBack(state, found));
    if (writer === undefined) return this.#stop(FORGOTTEN);
    // Somebody else's batch has the number of one that this process was acknowledged.
    if (Number(writer['batch']) !== this.#ownBatch) return this.#stop(wentBack(state, found));
    if (found.batch === state.batch && found.lowWater === state.lowWater) {
      if (found.chain !== state.chain) return this.#stop(wentBack(state, found));
      this.#contents = { ...this.#contents, state: found };
      return 'as known';
    }
    const contents = await readContents(session, state.stream);
    if (!(await goesOn(session, state, contents))) return this.#stop(wentBack(state, found));
    this.#contents = contents;
    return 'read again';
  }

  async #commit(session: Session, write: BatchWrite): Promise<LedgerFailure | undefined> {
    try {
      await commit(session);
      this.#contents = write.contents;
      this.#ownBatch = write.contents.state.batch;
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      session.destroy();
      const failure = this.#told(toLedgerFailure('writing', error));
      this.#planned = write.contents;
      const outcome = await this.#resolve(write.contents);
      if (typeof outcome === 'object') return outcome;
      if (outcome === 'not stored') return failure;
    }
    for (const series of write.series) this.#options.series.remember(series);
    return undefined;
  }

  /**
   * Finds out what became of a commit: writes into the row of this process, which the server can only confirm after
   * all that is visible before it, and reads the number of its last batch. Gives why it is not known.
   */
  async #resolve(planned: Contents): Promise<'stored' | 'not stored' | LedgerFailure> {
    const { owner } = this.#options;
    const { state } = this.#contents;
    let session: Session | undefined;
    try {
      session = await this.#connected();
      const [, , touched] = await session.run([
        { text: beginText(LOCK_TIMEOUT_MS) },
        // Nobody else writes meanwhile, and the transaction in question has ended.
        {
          text: 'select from meterfeed.stream where stream = $1 for update',
          values: [state.stream],
          rows: 1,
        },
        touchWriter(state.stream, owner),
      ]);
      const found = await readContents(session, state.stream);
      const isWhole = await goesOn(session, state, found);
      await commit(session);
      const [writer] = touched?.rows ?? [];
      const batch = Number(writer?.['batch']);
      const isStored = batch === planned.state.batch;
      if (!isWhole || (writer !== undefined && !isStored && batch !== this.#ownBatch)) {
        return this.#stop(wentBack(state, found.state));
      }
      if (writer === undefined) return this.#stop(FORGOTTEN);
      this.#contents = found;
      this.#ownBatch = batch;
      this.#planned = undefined;
      return isStored ? 'stored' : 'not stored';
    } catch (error) {
      session?.destroy();
      return this.#told(toLedgerFailure('finding out what was stored', error));
    }
  }

  async #connected(): Promise<Session> {
    const { database, answerMs } = this.#options;
    if (this.#session?.usable() !== true) this.#session = await openSession(database, answerMs);
    return this.#session;
  }

  #stop(failure: LedgerFailure): LedgerFailure {
    this.#stopped = failure;
    return this.#told(failure);
  }

  #told(failure: LedgerFailure): LedgerFailure {
    this.#options.onError(failure);
    return failure;
  }
}
