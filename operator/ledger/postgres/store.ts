import pLimit from 'p-limit';
import type { LedgerDatabase, LedgerDurability } from '../../config/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { EncodedEvent, RequestOutcome } from '../writer.ts';
import { dayOfAppend, ensureDay } from './days.ts';
import { isMissingPartition, toLedgerFailure } from './failures.ts';
import { lookUpStatements, storedById } from './find-stored.ts';
import { type BatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import type { Reads, StreamView } from './reading.ts';
import { NO_STANDBY, TAKEN_OVER, wentBack } from './refusals.ts';
import type { SeriesCache } from './series.ts';
import { openSession, type Row, type Session } from './session.ts';
import { type Contents, readContents, stateOf, STREAM_COLUMNS } from './state.ts';
import { beginText, commit, rollback, UnknownOutcomeError } from './transaction.ts';
import { type BatchWrite, writeBatch } from './write-batch.ts';

/** A stream, and the only place that writes to it: one transaction at a time. */
export interface Store {
  contents(): Contents;
  view(): StreamView;
  /** Writes one batch. What became of a commit that was not confirmed is found out before anything else is written. */
  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]>;
  /** Runs something else on the writer's connection, between two batches; then reads what there is. */
  between<T>(work: (session: Session) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface StoreOptions {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** Who this process is in the row of the stream. */
  readonly owner: string;
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
  /** What may hold since a commit that was not confirmed. */
  #planned: Contents | undefined;
  #stopped: LedgerFailure | undefined;

  constructor(options: StoreOptions) {
    this.#options = options;
    this.#contents = options.contents;
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
      const unresolved = this.#planned && (await this.#resolve(this.#planned));
      const refused = this.#stopped ?? unresolved;
      if (refused !== undefined) throw new LedgerReadError(refused);
      const session = await this.#connected();
      try {
        const result = await work(session);
        this.#days.clear();
        const found = await readContents(session, this.#contents.state.stream);
        // Whoever took the stream over has raised the epoch, which must never become ours.
        if (found.state.epoch !== this.#contents.state.epoch) {
          throw new LedgerReadError(this.#stop(TAKEN_OVER));
        }
        this.#contents = found;
        return result;
      } catch (error) {
        session.destroy();
        throw error;
      }
    });
  }

  async close(): Promise<void> {
    await this.#oneAtATime(async () => this.#session?.end());
  }

  async #write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not connected');
    for (let tries = 0; tries < ATTEMPTS; tries++) {
      if (this.#planned !== undefined) {
        const unresolved = await this.#resolve(this.#planned);
        if (unresolved !== undefined) failure = unresolved;
      }
      const stopped = this.#stopped;
      if (stopped !== undefined) return requests.map(() => stopped);
      if (this.#planned !== undefined) continue;
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
      const locked = await this.#lock(session, requests, offered, day, now);
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
    day: string,
    now: number,
  ): Promise<Locked | LedgerFailure> {
    const { stream, epoch } = this.#contents.state;
    const [, locked, ...found] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS) },
      {
        text: `select ${STREAM_COLUMNS}, current_setting('synchronous_standby_names') as standbys
          from meterfeed.stream where stream = $1 and epoch = $2 for update`,
        values: [stream, epoch],
      },
      ...lookUpStatements(offered, stream, this.#contents.segments),
    ]);
    const refused = await this.#refusal(session, locked?.rows[0]);
    if (refused !== undefined) return refused;
    const rows = found.flatMap((result) => result.rows);
    const stored = await storedById(this.view(), rows, offered);
    const before = this.#contents;
    const plan = planBatch(requests, before, stored);
    const idle =
      plan.head === before.state.head &&
      plan.accepted.length === 0 &&
      plan.records.size === 0 &&
      plan.cursors.size === 0 &&
      plan.lastWindowEnd === before.state.lastWindowEnd;
    if (idle) return { plan, write: undefined };
    const cache = this.#options.series;
    return { plan, write: await writeBatch(session, { before, plan, cache, day, now }) };
  }

  /** Why nothing may be written now; undefined when it may. */
  async #refusal(session: Session, row: Row | undefined): Promise<LedgerFailure | undefined> {
    if (row === undefined) {
      return this.#stop(TAKEN_OVER);
    }
    const { state } = this.#contents;
    const { batch, chain, lowWater, stream } = state;
    const found = stateOf(row);
    if (found.batch !== batch || found.chain !== chain) return this.#stop(wentBack(state, found));
    if (this.#options.durability === 'standby' && row['standbys'] === '') {
      return this.#told(NO_STANDBY);
    }
    // Another process has deleted a day.
    if (found.lowWater !== lowWater) this.#contents = await readContents(session, stream);
    return undefined;
  }

  async #commit(session: Session, write: BatchWrite): Promise<LedgerFailure | undefined> {
    try {
      await commit(session);
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      session.destroy();
      const failure = this.#told(toLedgerFailure('writing', error));
      this.#planned = write.contents;
      const unresolved = await this.#resolve(write.contents);
      if (unresolved !== undefined) return unresolved;
      if (this.#contents.state.batch !== write.contents.state.batch) return failure;
    }
    if (this.#contents.state.batch !== write.contents.state.batch) this.#contents = write.contents;
    for (const series of write.series) this.#options.series.remember(series);
    return undefined;
  }

  /**
   * Finds out what became of a commit: raises the epoch, which the server can only confirm after all that
   * is visible before it, and reads the number of the last batch. Gives why it is not known;
   * undefined when it is.
   */
  async #resolve(planned: Contents): Promise<LedgerFailure | undefined> {
    const { owner } = this.#options;
    const { stream } = this.#contents.state;
    let session: Session | undefined;
    try {
      session = await this.#connected();
      const [, raised] = await session.run([
        { text: beginText(LOCK_TIMEOUT_MS) },
        {
          text: `update meterfeed.stream set epoch = epoch + 1
            where stream = $1 and owner = $2 returning epoch`,
          values: [stream, owner],
        },
      ]);
      if (raised?.rowCount !== 1) {
        await rollback(session);
        return this.#stop(TAKEN_OVER);
      }
      // Within the transaction: nobody else can take the stream over meanwhile.
      const found = await readContents(session, stream);
      await commit(session);
      const known = [this.#contents, planned].some(
        ({ state }) => state.batch === found.state.batch && state.chain === found.state.chain,
      );
      if (!known) return this.#stop(wentBack(this.#contents.state, found.state));
      this.#contents = found;
      this.#planned = undefined;
      return undefined;
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
