import { isDeepStrictEqual } from 'node:util';
import type { LedgerFailure } from '../ledger.ts';
import { goesOn } from './continuity.ts';
import { FORGOTTEN, TAKEN_OVER, wentBack } from './refusals.ts';
import type { Row, Session } from './session.ts';
import { type Contents, readContents, type StreamState } from './state.ts';
import { beginText, commit } from './transaction.ts';
import { touchWriter } from './writers.ts';

export interface KnownStreamOptions {
  /** Who this process is among those that write the stream. */
  readonly owner: string;
  /** That of the stream while this process is its meter; undefined while it is not. */
  readonly epoch: number | undefined;
  /** As it was when this process came. */
  readonly contents: Contents;
  readonly onError: (failure: LedgerFailure) => void;
}

/** How long a transaction waits for the rows that it locks. */
export const LOCK_TIMEOUT_MS = 5_000;

/** So many batches in a row find the stream as it was known, before it is expected of the next one again. */
const UNDISTURBED_BATCHES = 16;

/**
 * What a process knows of a stream, and why it may not write it. What others have written is taken in; where the server has
 * lost anything that it confirmed to this process, the process stops for good.
 */
export class KnownStream {
  readonly #owner: string;
  readonly #onError: (failure: LedgerFailure) => void;
  #contents: Contents;
  #epoch: number | undefined;
  /** The last batch that this process was acknowledged, or the newest when it came. */
  #ownBatch: number;
  /** What may hold since a commit that was not confirmed. */
  #planned: Contents | undefined;
  #stopped: LedgerFailure | undefined;
  /** How many batches in a row found the stream as it was known. */
  #undisturbed = UNDISTURBED_BATCHES;

  constructor({ owner, epoch, contents, onError }: KnownStreamOptions) {
    this.#owner = owner;
    this.#onError = onError;
    this.#contents = contents;
    this.#epoch = epoch;
    this.#ownBatch = contents.state.batch;
  }

  contents(): Contents {
    return this.#contents;
  }

  /** Why this process writes nothing any more. */
  stopped(): LedgerFailure | undefined {
    return this.#stopped;
  }

  /** Whether it is known what became of the last commit. */
  isResolved(): boolean {
    return this.#planned === undefined;
  }

  /** What was read outside of any write. */
  read(contents: Contents): void {
    this.#contents = contents;
  }

  /** This process has become the meter. */
  led(contents: Contents): void {
    this.#contents = contents;
    this.#epoch = contents.state.epoch;
  }

  /** A batch of this process was confirmed. */
  committed(contents: Contents): void {
    this.#contents = contents;
    this.#ownBatch = contents.state.batch;
  }

  /** A batch of this process was neither confirmed nor refused. */
  unconfirmed(planned: Contents): void {
    this.#planned = planned;
  }

  /** Why this process may not do what the meter does; undefined when it may. */
  notMeter(): LedgerFailure | undefined {
    const { epoch } = this.#contents.state;
    if (epoch === this.#epoch) return undefined;
    // Never again, whatever the epoch will be, unless it is given the stream once more.
    this.#epoch = undefined;
    return this.told(TAKEN_OVER);
  }

  /** Whether nobody else seems to write. */
  isUndisturbed(): boolean {
    return this.#undisturbed >= UNDISTURBED_BATCHES;
  }

  /** Whether the stream, now that it is locked, is in every way as it was known. */
  isAsKnown(found: StreamState): boolean {
    const isSame = isDeepStrictEqual(found, this.#contents.state);
    if (!isSame) this.#undisturbed = 0;
    return isSame;
  }

  /**
   * Goes on from what the stream has now that it is locked: what other processes have written is read. Gives why
   * nothing may be written.
   */
  async goOn(
    session: Session,
    found: StreamState,
    writer: Row | undefined,
  ): Promise<'as known' | 'read again' | LedgerFailure> {
    const { state } = this.#contents;
    if (found.batch < state.batch) return this.stop(wentBack(state, found));
    if (writer === undefined) return this.stop(FORGOTTEN);
    // Somebody else's batch has the number of one that this process was acknowledged.
    if (Number(writer['batch']) !== this.#ownBatch) return this.stop(wentBack(state, found));
    if (found.batch === state.batch && found.lowWater === state.lowWater) {
      if (found.chain !== state.chain) return this.stop(wentBack(state, found));
      this.#contents = { ...this.#contents, state: found };
      this.#undisturbed += 1;
      return 'as known';
    }
    const contents = await readContents(session, state.stream);
    if (!(await goesOn(session, state, contents))) return this.stop(wentBack(state, found));
    this.#contents = contents;
    this.#undisturbed = 0;
    return 'read again';
  }

  /**
   * Finds out what became of a commit: writes into the row of this process, which the server can only confirm after
   * all that is visible before it, and reads the number of its last batch. Gives why nothing may be written any more.
   */
  async findOut(session: Session): Promise<'stored' | 'not stored' | LedgerFailure> {
    const { state } = this.#contents;
    const [, , touched] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS) },
      // Nobody else writes meanwhile, and the transaction in question has ended.
      {
        text: 'select from meterfeed.stream where stream = $1 for update',
        values: [state.stream],
        rows: 1,
      },
      touchWriter(state.stream, this.#owner),
    ]);
    const found = await readContents(session, state.stream);
    const isWhole = await goesOn(session, state, found);
    await commit(session);
    const [writer] = touched?.rows ?? [];
    const batch = Number(writer?.['batch']);
    const isStored = batch === this.#planned?.state.batch;
    if (!isWhole || (writer !== undefined && !isStored && batch !== this.#ownBatch)) {
      return this.stop(wentBack(state, found.state));
    }
    if (writer === undefined) return this.stop(FORGOTTEN);
    this.#contents = found;
    this.#ownBatch = batch;
    this.#planned = undefined;
    return isStored ? 'stored' : 'not stored';
  }

  stop(failure: LedgerFailure): LedgerFailure {
    this.#stopped = failure;
    return this.told(failure);
  }

  told(failure: LedgerFailure): LedgerFailure {
    this.#onError(failure);
    return failure;
  }
}
