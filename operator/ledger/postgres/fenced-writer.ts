import pLimit from 'p-limit';
import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import { ledgerFailure } from '../failures.ts';
import type { LedgerFailure } from '../ledger.ts';
import { toLedgerFailure } from './failures.ts';
import { NO_STANDBY, TAKEN_OVER, wentBack } from './refusals.ts';
import { openSession, type Result, type Row, type Session, type Statement } from './session.ts';
import { beginText, commit, rollback, UnknownOutcomeError } from './transaction.ts';

/** The row by which one process at a time writes. It has the columns `epoch`, `owner` and `last_batch`. */
export interface FencedRow {
  readonly table: string;
  /** The condition that selects it. */
  readonly where: string;
  /** What is read of it beside. */
  readonly columns: string;
}

export interface FencedWriterOptions {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** How long the server may take to answer, a commit's wait for the standby included; milliseconds. */
  readonly answerMs: number;
  readonly row: FencedRow;
  readonly owner: string;
  readonly epoch: number;
  /** The number of the last write when this process came. */
  readonly lastBatch: number;
  /** Why the row, which has the right number, is not as this process left it; undefined where it is. */
  readonly differs: (row: Row) => LedgerFailure | undefined;
  readonly onError: (failure: LedgerFailure) => void;
}

/** One transaction under the lock of the row. */
export interface Task<T> {
  /** Sent with the lock; run once it is taken. */
  readonly also?: () => readonly Statement[];
  readonly run: (session: Session, row: Row, also: readonly Result[]) => Promise<Work<T>>;
}

/** What a transaction comes to. */
export interface Work<T> {
  readonly result: T;
  /** Called once it is known to be stored; undefined where there is nothing to commit. */
  readonly stored: (() => void) | undefined;
}

export type Written<T> = { readonly kind: 'written'; readonly result: T } | LedgerFailure;

const ATTEMPTS = 3;
/** How long a transaction waits for the row. */
const LOCK_TIMEOUT_MS = 5_000;

/**
 * Runs the transactions of the one process that may write, one at a time, on a connection of its own. A write raises
 * `last_batch` by one. Three situations beside success:
 *
 * 1. The row has another owner or epoch: another process writes. Everything is refused from then on.
 * 2. `last_batch` is not the last confirmed one: the server has lost what it confirmed. Everything is refused from then on.
 * 3. A commit was neither confirmed nor refused. Before anything else, the row is written as it is, and that is committed.
 *    The server's log is ordered, so this confirms everything visible. `last_batch` then says whether the write is stored.
 */
export class FencedWriter {
  readonly #options: FencedWriterOptions;
  readonly #oneAtATime = pLimit(1);
  #session: Session | undefined;
  #lastBatch: number;
  #stopped: LedgerFailure | undefined;
  /** What holds if the commit that was not confirmed is stored. */
  #unknown: (() => void) | undefined;

  constructor(options: FencedWriterOptions) {
    this.#options = options;
    this.#lastBatch = options.lastBatch;
  }

  /** The epoch of this process, and the number that the next write stores. */
  next(): { readonly epoch: number; readonly lastBatch: number } {
    return { epoch: this.#options.epoch, lastBatch: this.#lastBatch + 1 };
  }

  /** Runs a transaction. It is tried again while nothing of it is stored. */
  write<T>(task: Task<T>): Promise<Written<T>> {
    return this.#oneAtATime(async () => {
      let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not connected');
      for (let tries = 0; tries < ATTEMPTS; tries++) {
        const outcome = await this.#attempt(task);
        if (outcome.kind === 'written') return outcome;
        failure = outcome;
        if (this.#stopped !== undefined || failure.cause !== 'retryable') break;
      }
      return this.#stopped ?? failure;
    });
  }

  /** Waits for the transaction under way and disconnects. */
  async close(): Promise<void> {
    await this.#oneAtATime(async () => this.#session?.end());
  }

  async #attempt<T>(task: Task<T>): Promise<Written<T>> {
    if (this.#stopped !== undefined) return this.#stopped;
    try {
      const unresolved = await this.#resolve();
      if (typeof unresolved === 'object') return unresolved;
      return await this.#transaction(await this.#connected(), task);
    } catch (error) {
      this.#session?.destroy();
      return this.#report(toLedgerFailure('writing', error));
    }
  }

  async #transaction<T>(session: Session, { also, run }: Task<T>): Promise<Written<T>> {
    const { row: place, durability } = this.#options;
    const [, locked, ...others] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS) },
      {
        text: `select epoch, owner, last_batch, ${place.columns},
            current_setting('synchronous_standby_names') as standbys
          from ${place.table} where ${place.where} for update`,
        values: [],
      },
      ...(also?.() ?? []),
    ]);
    const row = locked?.rows[0];
    const refused = this.#refusal(row);
    if (row === undefined || refused !== undefined) {
      await rollback(session);
      return this.#stop(refused ?? TAKEN_OVER);
    }
    if (durability === 'standby' && row['standbys'] === '') {
      await rollback(session);
      return this.#report(NO_STANDBY);
    }
    const { result, stored } = await run(session, row, others);
    if (stored === undefined) {
      await rollback(session);
      return { kind: 'written', result };
    }
    return (await this.#commit(session, stored)) ?? { kind: 'written', result };
  }

  /** Why this process may not go on from a row. */
  #refusal(row: Row | undefined): LedgerFailure | undefined {
    if (row === undefined) return TAKEN_OVER;
    const { owner, epoch, differs } = this.#options;
    const lastBatch = Number(row['last_batch']);
    if (Number(row['epoch']) > epoch || row['owner'] !== owner) {
      return lastBatch < this.#lastBatch ? wentBack(this.#lastBatch, lastBatch) : TAKEN_OVER;
    }
    if (lastBatch !== this.#lastBatch) return differs(row) ?? wentBack(this.#lastBatch, lastBatch);
    return differs(row);
  }

  async #commit(session: Session, stored: () => void): Promise<LedgerFailure | undefined> {
    try {
      await commit(session);
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      session.destroy();
      this.#unknown = stored;
      const failure = this.#report(toLedgerFailure('writing', error));
      const outcome = await this.#resolve().catch((cause: unknown) => {
        this.#session?.destroy();
        return this.#report(toLedgerFailure('resolving an unknown commit', cause));
      });
      if (typeof outcome === 'object') return outcome;
      return outcome === 'stored' ? undefined : failure;
    }
    this.#lastBatch += 1;
    stored();
    return undefined;
  }

  /** Finds out what became of a commit that was neither confirmed nor refused. Rejects where the server does not answer. */
  async #resolve(): Promise<'stored' | 'not stored' | LedgerFailure> {
    const stored = this.#unknown;
    if (stored === undefined) return 'not stored';
    const { row, owner } = this.#options;
    const session = await this.#connected();
    // The lock makes it wait for the transaction in question.
    const [, touched] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS) },
      {
        text: `update ${row.table} set owner = $1 where ${row.where} and owner = $1
          returning last_batch, ${row.columns}`,
        values: [owner],
      },
    ]);
    const found = touched?.rows[0];
    if (found === undefined) {
      await rollback(session);
      return this.#stop(TAKEN_OVER);
    }
    await commit(session);
    const lastBatch = Number(found['last_batch']);
    const isStored = lastBatch === this.#lastBatch + 1;
    if (!isStored && lastBatch !== this.#lastBatch) {
      return this.#stop(this.#options.differs(found) ?? wentBack(this.#lastBatch, lastBatch));
    }
    this.#unknown = undefined;
    if (!isStored) return 'not stored';
    this.#lastBatch = lastBatch;
    stored();
    return 'stored';
  }

  async #connected(): Promise<Session> {
    const { database, answerMs } = this.#options;
    if (this.#session?.usable() !== true) this.#session = await openSession(database, answerMs);
    return this.#session;
  }

  #stop(failure: LedgerFailure): LedgerFailure {
    this.#stopped = failure;
    return this.#report(failure);
  }

  #report(failure: LedgerFailure): LedgerFailure {
    this.#options.onError(failure);
    return failure;
  }
}
