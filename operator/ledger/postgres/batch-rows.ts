import { encodeStoredEvents, nextChain } from '../event-chain.ts';
import type { EncodedEvent } from '../writer.ts';
import { flatText } from '../../model/flat-text.ts';
import { type EventRow, NO_TEXT_COLUMNS, textColumns } from './event-rows.ts';
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

/** Little enough for the server to begin soon. */
const FIRST_PIECE_EVENTS = 125;
/** Little enough for it to have something to do all the time, and much enough for few statements. */
const PIECE_EVENTS = 300;

/** Not into the partition itself, which is a little quicker: one that is detached would take rows that nobody reads. */
const COPY = `copy meterfeed.event (day, stream, seq, window_start, window_end, recorded_at, series,
  crc, id, quantity, foreign_id, extra) from stdin`;

/** Stores events. The chain value behind them is known once they are all sent. */
export class StoreEvents {
  readonly #batch: BatchRows;
  readonly #rows: EventRow[] = [];
  /** What the chain is made of. */
  readonly #bytes: Buffer[] = [];
  /** How each row begins. */
  readonly #front: string;
  /** Of the last row. */
  #times = '';

  constructor(batch: BatchRows) {
    this.#batch = batch;
    this.#front = flatText(`${batch.day}\t${batch.stream}\t`);
  }

  /**
   * Stores the next events; undefined where their series have to be asked for. A statement of their own, because the server
   * keeps the rows of one until it has enough of them, and would have nothing to do while the next are made.
   */
  next(): Statement | undefined {
    const { events, firstSequence, numbering } = this.#batch;
    const sent = this.#rows.length;
    const piece = events.slice(sent, sent + (sent === 0 ? FIRST_PIECE_EVENTS : PIECE_EVENTS));
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
    const { id, quantity } = row;
    const front = `${this.#front}${sequence}${this.#timesOf(row)}`;
    return `${front}${series}\t${checksum}\t${id}\t${quantity}${textsOf(row)}`;
  }

  /** Mostly those of the row before. */
  #timesOf({ windowStart, windowEnd, recordedAt }: EventRow): string {
    const last = this.#rows.at(-1);
    if (
      last === undefined ||
      last.windowStart !== windowStart ||
      last.windowEnd !== windowEnd ||
      last.recordedAt !== recordedAt
    ) {
      this.#times = flatText(`\t${windowStart}\t${windowEnd}\t${recordedAt}\t`);
    }
    return this.#times;
  }
}

function textsOf(row: EventRow): string {
  const columns = textColumns(row);
  return columns === NO_TEXT_COLUMNS ? NO_TEXTS : textsWith(columns);
}

function textsWith([foreignId, extra]: readonly [string, string]): string {
  return `\t${escaped(foreignId)}\t${escaped(extra)}\n`;
}

const SPECIAL = /[\\\n\r\t]/;
const ESCAPES: readonly (readonly [string, string])[] = [
  ['\\', '\\\\'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
];

const NO_TEXTS = textsWith(NO_TEXT_COLUMNS);

function escaped(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return ESCAPES.reduce((result, [from, to]) => result.replaceAll(from, () => to), text);
}
