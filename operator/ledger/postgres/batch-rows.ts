import type { Hash } from 'node:crypto';
import { encodeStoredEvents, nextChain } from '../event-chain.ts';
import type { EncodedEvent } from '../writer.ts';
import { type EventRow, textColumns } from './event-rows.ts';
import type { SeriesNumbering } from './number-series.ts';
import type { Statement } from './session.ts';

/** The events of a batch, on their way to the table. */
export interface BatchRows {
  readonly day: string;
  readonly stream: number;
  readonly firstSequence: number;
  /** The chain value before the first event, hex. */
  readonly chain: string;
  readonly events: readonly EncodedEvent[];
  readonly numbering: SeriesNumbering;
}

/** Little enough for the server to begin soon, and much enough for few messages. */
const PIECE_EVENTS = 200;

/** Stores events. The chain value behind them is known once they are all sent. */
export class StoreEvents {
  readonly #batch: BatchRows;
  readonly #chain: Hash;
  readonly #rows: EventRow[] = [];

  constructor(batch: BatchRows) {
    this.#batch = batch;
    this.#chain = nextChain(batch.chain);
  }

  /** Stores what is left, up to the first events whose series have to be asked for. */
  statement(): Statement {
    const before = this.#rows.length;
    const sent = () => this.#rows.length - before;
    return {
      text: `copy meterfeed.event (day, stream, seq, window_start, window_end, recorded_at, series,
        crc, id, quantity, foreign_id, extra) from stdin`,
      pieces: this.#pieces(),
      get rows() {
        return sent();
      },
    };
  }

  /** Those that were not sent: their series have to be asked for, or the connection has taken nothing. */
  left(): readonly EncodedEvent[] {
    return this.#batch.events.slice(this.#rows.length);
  }

  /** Those that were sent, as they are stored. */
  rows(): readonly EventRow[] {
    return this.#rows;
  }

  /** The chain value behind the last event, hex. Throws unless all are sent. */
  chain(): string {
    const { length } = this.left();
    if (length > 0) throw new Error(`ledger: events were not all sent: "${length} are left"`);
    return this.#chain.digest('hex');
  }

  /** In the text format of COPY (https://www.postgresql.org/docs/current/sql-copy.html). */
  *#pieces(): Generator<Buffer, void, void> {
    const { events, firstSequence, numbering } = this.#batch;
    while (this.#rows.length < events.length) {
      const sent = this.#rows.length;
      const piece = events.slice(sent, sent + PIECE_EVENTS);
      const numbered = numbering.number(piece);
      if (numbered === undefined) return;
      const sequence = firstSequence + sent;
      const { values, bytes } = encodeStoredEvents(
        sequence,
        piece.map(({ text }) => text),
      );
      this.#chain.update(bytes);
      let lines = '';
      for (const [index, row] of numbered.rows.entries()) {
        const checksum = values[index]?.readInt32BE() ?? 0;
        lines += this.#line(sequence + index, checksum, numbered.numbers[index], row);
        this.#rows.push(row);
      }
      yield Buffer.from(lines);
    }
  }

  #line(sequence: number, checksum: number, series: number | undefined, row: EventRow): string {
    const { day, stream } = this.#batch;
    const [foreignId, extra] = textColumns(row);
    return `${day}\t${stream}\t${sequence}\t${row.windowStart}\t${row.windowEnd}\t${
      row.recordedAt
    }\t${series}\t${checksum}\t${row.id}\t${row.quantity}\t${escaped(foreignId)}\t${escaped(extra)}\n`;
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
