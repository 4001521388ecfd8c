import { crc32 } from 'node:zlib';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { rememberLast } from '../../model/remember-last.ts';
import { type EventRow, idOf, type Series } from './event-rows.ts';
import { END, type EventLayout, layoutOf, type OwnField } from './event-template.ts';
import { instantText } from './instants.ts';
import { behindPart, behindText, type KnownPart, knownPart } from './known-parts.ts';
import { SERIES_COLUMNS } from './series.ts';

/**
 * A series as its events are read. There may be ten for each tenant of every stream of a hub: it takes some 650 bytes, with what
 * series have in common there once.
 */
export interface ReadSeries {
  readonly series: Series;
  /** Undefined where its events are not all alike. */
  readonly template: ReadTemplate | undefined;
}

/** Puts events together whose rows have no `extra`. */
export interface ReadTemplate {
  /**
   * The event of a row; undefined unless `checksum` is the CRC-32 of its text, started from `seed`, signed. What it shares
   * with others is frozen.
   */
  eventWith(checksum: number, seed: number, row: EventRow): UsageEvent | undefined;
}

/** Texts, each of which may be there a thousand times: those of a page of events. */
const MOST_SHARED = 1_000;

/** Makes series to read with, and gives equal parts of them as one. */
export class ReadSeriesMaker {
  readonly #text = rememberLast((text) => text, MOST_SHARED);
  readonly #parsed = rememberLast((text): unknown => Object.freeze(JSON.parse(text)), MOST_SHARED);
  readonly #part = rememberLast(knownPart);
  readonly #order = rememberLast((names) => names.split(',') as readonly OwnField[]);

  make(found: Series): ReadSeries {
    const columns = SERIES_COLUMNS.flatMap((name) => {
      const value = found[name];
      return value === undefined ? [] : [[name, this.#text(value)] as const];
    });
    // Has what it was made from.
    const complete = Object.fromEntries(columns) as object as Series;
    // A copy takes no more room than it needs.
    const series = { ...complete };
    const layout = layoutOf(series, this.#parsed);
    return { series, template: layout && this.#templateOf(layout) };
  }

  #templateOf({ slots, fields }: EventLayout): ReadTemplate {
    const order = this.#order(slots.map(({ field }) => field).join(','));
    const parts = slots.map(({ before, field }) =>
      this.#part(field === 'id' ? before + EVENT_ID_PREFIX : before),
    );
    // Has every field of an event, in the order of its text.
    return new Template(order, parts, { ...fields } as object as UsageEvent);
  }
}

const END_PART = knownPart(END);

class Template implements ReadTemplate {
  readonly #order: readonly OwnField[];
  /** What stands before each field that is the row's own, where the id is derived. */
  readonly #parts: readonly KnownPart[];
  readonly #event: UsageEvent;

  constructor(order: readonly OwnField[], parts: readonly KnownPart[], event: UsageEvent) {
    this.#order = order;
    this.#parts = parts;
    this.#event = event;
  }

  eventWith(checksum: number, seed: number, row: EventRow): UsageEvent | undefined {
    const start = instantOf(row.windowStart);
    const end = instantOf(row.windowEnd);
    const recorded = instantOf(row.recordedAt);
    // Only in an id of others can there be characters that are more than one byte.
    const isDerived = row.foreignId === undefined;
    if (isDerived && this.#checksumOf(row, start, end, recorded, seed) !== checksum)
      return undefined;
    const event: UsageEvent = {
      ...this.#event,
      id: idOf(row),
      window_start: start.text,
      window_end: end.text,
      recorded_at: recorded.text,
      // Written by `storedRow` from a quantity.
      quantity: row.quantity as UsageEvent['quantity'],
    };
    if (isDerived || (crc32(encodeEvent(event), seed) | 0) === checksum) return event;
    return undefined;
  }

  /** Of an event with a derived id. */
  #checksumOf(
    { id, quantity }: EventRow,
    start: Instant,
    end: Instant,
    recorded: Instant,
    seed: number,
  ): number {
    let checksum = seed;
    // Once for every event that is read: neither an iterator nor an object for each.
    for (let index = 0; index < this.#order.length; index += 1) {
      checksum = behindPart(checksum, this.#parts[index] ?? END_PART);
      switch (this.#order[index]) {
        case 'id':
          checksum = behindText(checksum, id);
          break;
        case 'window_start':
          checksum = behindPart(checksum, start.part);
          break;
        case 'window_end':
          checksum = behindPart(checksum, end.part);
          break;
        case 'recorded_at':
          checksum = behindPart(checksum, recorded.part);
          break;
        default:
          checksum = behindText(checksum, quantity);
      }
    }
    return behindPart(checksum, END_PART);
  }
}

/** A time as it stands in events. */
interface Instant {
  readonly text: string;
  readonly part: KnownPart;
}

/** Of milliseconds since the epoch: a page of events has few. */
const instantOf = rememberLast((ms: number): Instant => {
  const text = instantText(ms);
  return { text, part: knownPart(text) };
});
