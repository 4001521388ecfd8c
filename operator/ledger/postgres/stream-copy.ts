import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { systemClock } from '../../telemetry/system-clock.ts';
import { damage, ledgerFailure } from '../failures.ts';
import { type Cursor, LedgerReadError, type RecordChange } from '../ledger.ts';
import type { EncodedEvent } from '../writer.ts';
import { beginCopy, type CopyOptions, type CopyOrigin } from './begin-copy.ts';
import type { StreamView } from './decode-rows.ts';
import type { PostgresRequest } from './plan-batch.ts';
import { createReaders, type Readers } from './readers.ts';
import { SeriesCache } from './series-cache.ts';
import type { Session } from './session.ts';
import type { Contents } from './state.ts';
import { createStore, type Store } from './store.ts';
import { beginText, commit } from './transaction.ts';

/** A batch as it was stored first. */
export interface CopiedBatch {
  readonly events: readonly EncodedEvent[];
  /** Milliseconds since the epoch. */
  readonly appendedAt: number;
  readonly lastSequence: number;
  /** The chain value at its last event, hex. */
  readonly chain: string;
}

/**
 * A stream that is being filled from another ledger, with the numbers, days and chain that it has there. No operator
 * takes it over before it is finished. Everything throws a LedgerReadError at what fails; the next process goes on where
 * this one was.
 */
export interface StreamCopy {
  contents(): Contents;
  view(): StreamView;
  /** Stores the batch that follows the newest. Throws when the chain at its end is not the one that it had. */
  append(batch: CopiedBatch): Promise<void>;
  /** Leaves out numbers that the origin lacks; the chain goes on from another value. */
  skip(head: number, chain: string): Promise<void>;
  /** Deletes the records and cursors that an earlier process has written. */
  clearEntries(): Promise<void>;
  writeRecords(records: readonly RecordChange[], windowEnd?: number): Promise<void>;
  writeCursor(cursor: Cursor): Promise<void>;
  /** From here on an operator may write the stream. */
  finish(horizon: number): Promise<void>;
  close(): Promise<void>;
}

/** `finished`: all of it was there already, and an operator may have been writing it since. */
export type OpenCopyOutcome =
  | { readonly kind: 'open'; readonly copy: StreamCopy }
  | { readonly kind: 'finished' };

const ANSWER_MS = 60_000;
const LOCK_TIMEOUT_MS = 60_000;

/** Begins or resumes a copy. Throws a LedgerReadError when the stream is anything else. */
export async function openStreamCopy(
  options: CopyOptions,
  origin: CopyOrigin,
): Promise<OpenCopyOutcome> {
  const owner = `copy ${hostname()} ${randomUUID()}`;
  const contents = await beginCopy(options, origin, owner);
  if (contents === undefined) return { kind: 'finished' };
  return { kind: 'open', copy: new CopiedStream(options, owner, contents) };
}

class CopiedStream implements StreamCopy {
  readonly #store: Store;
  readonly #readers: Readers;
  /** When the batch that is being written was appended first. */
  #appendedAt = 0;

  constructor({ database, durability }: CopyOptions, owner: string, contents: Contents) {
    this.#readers = createReaders(database);
    this.#store = createStore({
      database,
      durability,
      owner,
      epoch: contents.state.epoch,
      contents,
      series: new SeriesCache(),
      reads: this.#readers,
      clock: { ...systemClock, now: () => this.#appendedAt },
      answerMs: ANSWER_MS,
      // Both are told by what the write comes to.
      onConflict: () => undefined,
      onError: () => undefined,
    });
  }

  contents(): Contents {
    return this.#store.contents();
  }

  view(): StreamView {
    return this.#store.view();
  }

  async append({ events, appendedAt, lastSequence, chain }: CopiedBatch): Promise<void> {
    this.#appendedAt = appendedAt;
    await this.#write({ kind: 'append', events, records: [] });
    const { state } = this.contents();
    if (state.head === lastSequence && state.chain === chain) return;
    throw damage(`event ${lastSequence}`, 'the chain of the copy differs from that of the ledger');
  }

  async skip(head: number, chain: string): Promise<void> {
    await this.#write({ kind: 'skip', head, chain });
  }

  async clearEntries(): Promise<void> {
    const { stream } = this.contents().state;
    await this.#alone(async (session) => {
      await session.run(
        ['record', 'cursor'].map((name) => ({
          text: `delete from meterfeed.${name} where stream = $1`,
          values: [stream],
        })),
      );
    });
  }

  async writeRecords(records: readonly RecordChange[], windowEnd?: number): Promise<void> {
    const request = { kind: 'append', events: [], records } as const;
    await this.#write(windowEnd === undefined ? request : { ...request, windowEnd });
  }

  async writeCursor(cursor: Cursor): Promise<void> {
    const { destination } = cursor;
    await this.#write({ kind: 'cursor', destination, plan: () => ({ kind: 'move', cursor }) });
  }

  async finish(horizon: number): Promise<void> {
    const { stream } = this.contents().state;
    await this.#alone(async (session) => {
      await session.run([
        {
          text: `update meterfeed.stream set copying = false, owner = '',
            horizon = greatest(horizon, $2) where stream = $1`,
          values: [stream, horizon],
          rows: 1,
        },
      ]);
    });
  }

  async close(): Promise<void> {
    await this.#store.close();
    await this.#readers.end();
  }

  /** A transaction of its own, while this process still has the stream. */
  async #alone(work: (session: Session) => Promise<void>): Promise<void> {
    const { stream, epoch } = this.contents().state;
    await this.#store.between(async (session) => {
      const [, locked] = await session.run([
        { text: beginText(LOCK_TIMEOUT_MS) },
        {
          text: 'select from meterfeed.stream where stream = $1 and epoch = $2 for update',
          values: [stream, epoch],
        },
      ]);
      if (locked?.rowCount !== 1) {
        throw new LedgerReadError(
          ledgerFailure('fenced', 'stream: another process copies into it'),
        );
      }
      await work(session);
      await commit(session);
    });
  }

  async #write(request: PostgresRequest): Promise<void> {
    const [outcome] = await this.#store.write([request]);
    if (outcome?.kind === 'failed') throw new LedgerReadError(outcome);
  }
}
