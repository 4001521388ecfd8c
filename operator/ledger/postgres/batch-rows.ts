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

/** Little enough for the server to begin soon, and much enough for few statements. */
const PIECE_EVENTS = 250;

const COPY = `copy meterfeed.event (day, stream, seq, window_start, window_end, recorded_at, series,
  crc, id, quantity, foreign_id, extra) from stdin`;

/** Stores events. The chain value behind them is known once they are all sent. */
export class StoreEvents {
  readonly #batch: BatchRows;
  readonly #rows: EventRow[] = [];
  /** What the chain is made of. */
  readonly #bytes: Buffer[] = [];

  constructor(batch: BatchRows) {
    this.#batch = batch;
  }

  /**
   * Stores the next events; undefined where their series have to be asked for. A statement of their own, because the server
   * keeps the rows of one until it has enough of them, and would have nothing to do while the next are made.
   */
  next(): Statement | undefined {
    const { events, firstSequence, numbering } = this.#batch;
    const sent = this.#rows.length;
    const piece = events.slice(sent, sent + PIECE_EVENTS);
    const numbered = numbering.number(piece);
    if (numbered === undefined) return undefined;
    const sequence = firstSequence + sent;
    const { values, bytes } = encodeStoredEvents(
      sequence,
      piece.map(({ text }) => text),
    );
    this.#bytes.push(bytes);
    let lines = '';
    for (const [index, row] of numbered.rows.entries()) {
      const checksum = values[index]?.readInt32BE() ?? 0;
      lines += this.#line(sequence + index, checksum, numbered.numbers[index], row);
      this.#rows.push(row);
    }
    return { text: COPY, input: Buffer.from(lines), rows: piece.length };
  }

  /** Whether none is left. */
  areSent(): boolean {
    return this.#rows.length === this.#batch.events.length;
  }

  /** Those that were not sent. */
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
    const chain = nextChain(this.#batch.chain);
    for (const bytes of this.#bytes) chain.update(bytes);
    return chain.digest('hex');
  }

  /** In the text format of COPY (https://www.postgresql.org/docs/current/sql-copy.html). */
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
