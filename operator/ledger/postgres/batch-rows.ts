import type { Hash } from 'node:crypto';
import { encodeStoredEvents, nextChain } from '../event-chain.ts';
import type { EncodedEvent } from '../writer.ts';
import { type EventRow, textColumns } from './event-rows.ts';
import type { Statement } from './session.ts';

/** The events of a batch, on their way to the table. */
export interface BatchRows {
  readonly day: string;
  readonly stream: number;
  readonly firstSequence: number;
  /** The chain value before the first event, hex. */
  readonly chain: string;
  readonly events: readonly EncodedEvent[];
  readonly rows: readonly EventRow[];
  /** The number of each event's series. */
  readonly numbers: readonly number[];
}

/** Little enough for the server to begin soon, and much enough for few messages. */
const PIECE_EVENTS = 200;

/** Stores events. The chain value behind them is known once they are all sent. */
export class StoreEvents {
  readonly #batch: BatchRows;
  readonly #chain: Hash;
  #sent = 0;

  constructor(batch: BatchRows) {
    this.#batch = batch;
    this.#chain = nextChain(batch.chain);
  }

  statement(): Statement {
    return {
      text: `copy meterfeed.event (day, stream, seq, window_start, window_end, recorded_at, series,
        crc, id, quantity, foreign_id, extra) from stdin`,
      pieces: this.#pieces(),
      rows: this.#batch.events.length,
    };
  }

  /** False when the connection has not taken them. */
  areSent(): boolean {
    return this.#sent === this.#batch.events.length;
  }

  /** The chain value behind the last event, hex. Throws unless all are sent. */
  chain(): string {
    if (!this.areSent()) throw new Error(`ledger: events were not all sent: "${this.#sent}"`);
    return this.#chain.digest('hex');
  }

  /** In the text format of COPY (https://www.postgresql.org/docs/current/sql-copy.html). */
  *#pieces(): Generator<Buffer, void, void> {
    const { events, firstSequence } = this.#batch;
    while (this.#sent < events.length) {
      const from = this.#sent;
      const texts = events.slice(from, from + PIECE_EVENTS).map(({ text }) => text);
      const { values, bytes } = encodeStoredEvents(firstSequence + from, texts);
      this.#chain.update(bytes);
      let lines = '';
      for (const [index, value] of values.entries()) {
        lines += this.#line(from + index, value.readInt32BE());
      }
      this.#sent += texts.length;
      yield Buffer.from(lines);
    }
  }

  #line(index: number, checksum: number): string {
    const { day, stream, firstSequence, rows, numbers } = this.#batch;
    const row = rows[index];
    if (row === undefined) throw new RangeError(`ledger: no row: "${index}"`);
    const [foreignId, extra] = textColumns(row);
    return `${day}\t${stream}\t${firstSequence + index}\t${row.windowStart}\t${row.windowEnd}\t${
      row.recordedAt
    }\t${numbers[index]}\t${checksum}\t${row.id}\t${row.quantity}\t${escaped(foreignId)}\t${escaped(extra)}\n`;
  }
}

const SPECIAL = /[\\\n\r\t]/;
const ESCAPES: readonly (readonly [string, string])[] = [
  ['\\', '\\\\'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
];

function escaped(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return ESCAPES.reduce((result, [from, to]) => result.replaceAll(from, () => to), text);
}
