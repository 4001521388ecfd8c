import pLimit from 'p-limit';
import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import { ledgerFailure } from '../failures.ts';
import type { LedgerFailure } from '../ledger.ts';
import { toLedgerFailure } from './failures.ts';
import { NO_STANDBY, TAKEN_OVER, wentBack } from './refusals.ts';
import {
  openSession,
  type StatementResult,
  type DatabaseRow,
  type Session,
  type Statement,
} from './session.ts';
import { beginText, commit, rollback, UnknownOutcomeError } from './transaction.ts';

/** A transaction that runs under the lock of the row. */
export interface Task<T> {
  /** Statements that are sent with the lock and run after it. */
  readonly also?: () => readonly Statement[];
  readonly run: (
    session: Session,
    row: DatabaseRow,
    also: readonly StatementResult[],
  ) => Promise<Work<T>>;
}

/** The result of a transaction. */
export interface Work<T> {
  readonly result: T;
  /** Called when the transaction is known to be stored; undefined if there is nothing to commit. */
  readonly stored: (() => void) | undefined;
}

export type FencedOutcome<T> = { readonly kind: 'written'; readonly result: T } | LedgerFailure;

const ATTEMPTS = 3;
/** How long a transaction waits for the row. */
const LOCK_TIMEOUT_MS = 5_000;

/**
 * Runs the transactions of the only writing process, one at a time, on its own connection. Each
 * write increments `last_batch`. Three situations other than success:
 *
 * 1. The row has another owner or epoch: another process writes. Every further write is refused.
 * 2. `last_batch` is not the last confirmed one: the server has lost confirmed writes. Every
 *    further write is refused.
 * 3. A commit was neither confirmed nor refused. The next step writes the row unchanged and
 *    commits. The server's log is ordered, so this commit confirms everything visible. `last_batch`
 *    then shows whether the unknown write is stored.
 */
export class FencedWriter {
  readonly #options;
  readonly #oneAtATime = pLimit(1);
  #session: Session | undefined;
  #lastBatch: number;
  #stopped: LedgerFailure | undefined;
  /** Callback of the commit with an unknown result. */
  #unknown: (() => void) | undefined;

  constructor(options: {
    readonly database: LedgerDatabase;
    readonly durability: LedgerDurability;
    /** Timeout of an answer, including a commit's wait for the standby; milliseconds. */
    readonly answerMs: number;
    /** The row that one process at a time locks to write; has `epoch`, `owner`, `last_batch`. */
    readonly row: {
      readonly table: string;
      /** SQL condition that selects the row. */
      readonly where: string;
      /** Further columns to read. */
      readonly columns: string;
    };
    readonly owner: string;
    readonly epoch: number;
    /** `last_batch` when this process took over. */
    readonly lastBatch: number;
    /** Returns why a row with the right `last_batch` differs from this process, or undefined. */
    readonly differs: (row: DatabaseRow) => LedgerFailure | undefined;
    readonly onError: (failure: LedgerFailure) => void;
  }) {
    this.#options = options;
    this.#lastBatch = options.lastBatch;
  }

  /** The epoch of this process and the `last_batch` of the next write. */
  next(): { readonly epoch: number; readonly lastBatch: number } {
    return { epoch: this.#options.epoch, lastBatch: this.#lastBatch + 1 };
  }

  /** Runs a transaction; retries while it is known not to be stored. */
  write<T>(task: Task<T>): Promise<FencedOutcome<T>> {
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

  /** Waits for the current transaction and disconnects. */
  async close(): Promise<void> {
    await this.#oneAtATime(async () => this.#session?.end());
  }

  async #attempt<T>(task: Task<T>): Promise<FencedOutcome<T>> {
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

  async #transaction<T>(session: Session, { also, run }: Task<T>): Promise<FencedOutcome<T>> {
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

  /** Returns why this process may not write with this row; undefined if it may. */
  #refusal(row: DatabaseRow | undefined): LedgerFailure | undefined {
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

  /** Finds out if a commit with unknown result is stored. Rejects if the server is silent. */
  async #resolve(): Promise<'stored' | 'not stored' | LedgerFailure> {
    const stored = this.#unknown;
    if (stored === undefined) return 'not stored';
    const { row, owner } = this.#options;
    const session = await this.#connected();
    // The row lock waits for the unknown transaction to end.
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
