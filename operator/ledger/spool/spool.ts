import { isRecord } from '../../model/is-record.ts';
import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import {
  type AppendBatch,
  type AppendOutcome,
  type Ledger,
  type LedgerFailure,
  LedgerReadError,
  type RecordChange,
  type WriteOutcome,
} from '../ledger.ts';
import { encodeEvents } from '../writer.ts';
import { stateOf } from './stream-position.ts';

/** A batch on its way into another ledger. */
export interface SpooledBatch extends AppendBatch {
  /** Counts on from 1 through the life of a spool. */
  readonly number: number;
  readonly records: readonly RecordChange[];
  /** The number of its last event in the spool's own ledger. */
  readonly lastSequence: number;
}

/** What the other ledger had when the oldest batch was made. */
export interface SpoolBase {
  readonly ledgerId: string;
  /** See {@link stateOf}. */
  readonly state: string;
}

/**
 * Batches that wait for another ledger, each whole and in order, in a LevelDB ledger as it is
 * (docs/ledger-format.md#the-spool): events as events, and what belongs to them as records.
 */
export interface Spool {
  base(): SpoolBase | undefined;
  /** How many batches wait. */
  size(): number;
  /** The number of the newest batch, 0 before the first. */
  newest(): number;
  /** Of the text of all batches that ever came in; it shrinks when the spool is made anew. */
  bytes(): number;
  /** `base` counts for the first batch of all. */
  append(batch: AppendBatch, base: SpoolBase): Promise<AppendOutcome>;
  /** The one that waits longest; undefined when none does. */
  oldest(): Promise<SpooledBatch | LedgerFailure | undefined>;
  /** Every batch that waits, without its events, oldest first. */
  waiting(): AsyncIterable<Omit<SpooledBatch, 'events'>>;
  /** The other ledger has the oldest batch. */
  drained(batch: SpooledBatch): Promise<WriteOutcome>;
  close(): Promise<void>;
}

const BASE_KEY = 'spool/base';
const BATCH_PREFIX = 'spool/batch/';
/** Of events that have gone on; no destination can have its name. */
const CURSOR = 'spool/drained';
const PAGE_EVENTS = 5_000;
const DIGITS = 16;

/** Where a batch is, in memory. */
interface Place {
  readonly number: number;
  /** The number before its first event. */
  readonly after: number;
}

/** What the record of a batch says. */
interface Mark extends Place {
  /** Of all batches up to this one. */
  readonly bytes: number;
  readonly records: readonly RecordChange[];
  readonly windowEnd?: number;
}

/** Takes what a LevelDB ledger holds for a spool. Throws a LedgerReadError where it cannot be read. */
export async function readSpool(ledger: Ledger): Promise<Spool> {
  const base = baseOf(await ledger.record(BASE_KEY));
  const places: Place[] = [];
  let bytes = 0;
  for await (const [key, text] of ledger.records(BATCH_PREFIX)) {
    const mark = markOf(key, text);
    places.push({ number: mark.number, after: mark.after });
    ({ bytes } = mark);
  }
  return new LevelSpool(ledger, base, places, bytes);
}

class LevelSpool implements Spool {
  readonly #ledger: Ledger;
  readonly #places: Place[];
  #base: SpoolBase | undefined;
  #bytes: number;
  #last: number;

  constructor(ledger: Ledger, base: SpoolBase | undefined, places: Place[], bytes: number) {
    this.#ledger = ledger;
    this.#base = base;
    this.#places = places;
    this.#bytes = bytes;
    this.#last = places.at(-1)?.number ?? 0;
  }

  base(): SpoolBase | undefined {
    return this.#base;
  }

  size(): number {
    return this.#places.length;
  }

  newest(): number {
    return this.#last;
  }

  bytes(): number {
    return this.#bytes;
  }

  async append(batch: AppendBatch, base: SpoolBase): Promise<AppendOutcome> {
    const { events, records = [], windowEnd } = batch;
    const place = { number: this.#last + 1, after: this.#ledger.head() };
    const bytes = this.#bytes + batchBytes(batch);
    const mark: Mark = { ...place, bytes, records, ...(windowEnd !== undefined && { windowEnd }) };
    const outcome = await this.#ledger.append({
      events,
      records: [
        ...(this.#base === undefined ? [{ key: BASE_KEY, value: JSON.stringify(base) }] : []),
        { key: batchKey(mark.number), value: markText(mark) },
      ],
      ...(windowEnd !== undefined && { windowEnd }),
    });
    if (outcome.kind === 'failed') return outcome;
    this.#base ??= base;
    this.#places.push(place);
    this.#bytes = bytes;
    this.#last = mark.number;
    return outcome;
  }

  async oldest(): Promise<SpooledBatch | LedgerFailure | undefined> {
    const [place, next] = this.#places;
    if (place === undefined) return undefined;
    const lastSequence = next?.after ?? this.#ledger.head();
    try {
      const key = batchKey(place.number);
      const text = await this.#ledger.record(key);
      if (text === undefined) throw damage('spool', `a batch is missing: "${key}"`);
      const { records, windowEnd } = markOf(key, text);
      const events = await this.#events(place.after, lastSequence);
      const { number } = place;
      return {
        number,
        events,
        records,
        lastSequence,
        ...(windowEnd !== undefined && { windowEnd }),
      };
    } catch (error) {
      if (error instanceof LedgerReadError) return error.failure;
      throw error;
    }
  }

  async *waiting(): AsyncGenerator<Omit<SpooledBatch, 'events'>> {
    const ends = new Map(
      this.#places.map(({ number }, index) => [number, this.#places[index + 1]?.after]),
    );
    for await (const [key, text] of this.#ledger.records(BATCH_PREFIX)) {
      const mark = markOf(key, text);
      yield { ...mark, lastSequence: ends.get(mark.number) ?? this.#ledger.head() };
    }
  }

  async drained({ number, records, lastSequence }: SpooledBatch): Promise<WriteOutcome> {
    const state = stateOf(records);
    const base = this.#base && { ...this.#base, ...(state !== undefined && { state }) };
    const outcome = await this.#ledger.commitCursor(CURSOR, lastSequence, {
      records: [
        { key: batchKey(number), value: undefined },
        { key: BASE_KEY, value: base && JSON.stringify(base) },
      ],
    });
    if (outcome.kind === 'failed') return outcome;
    this.#base = base;
    this.#places.shift();
    return outcome;
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  async #events(after: number, last: number): Promise<readonly UsageEvent[]> {
    const events: UsageEvent[] = [];
    let at = after;
    while (at < last) {
      const page = await this.#ledger.read(at, Math.min(PAGE_EVENTS, last - at));
      if (page.kind === 'failed') throw new LedgerReadError(page);
      if (page.events.length === 0) throw damage('spool', `event ${at + 1} is missing`);
      for (const { event } of page.events) events.push(event);
      at = page.lastSequence;
    }
    return events;
  }
}

/** How much of a spool's room a batch takes. */
export function batchBytes({ events, records = [] }: AppendBatch): number {
  const texts = [...encodeEvents(events).map(({ text }) => text), JSON.stringify(records)];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

function batchKey(number: number): string {
  return BATCH_PREFIX + String(number).padStart(DIGITS, '0');
}

/** A deleted record has null for its value. */
function markText({ after, bytes, windowEnd, records }: Mark): string {
  return JSON.stringify({
    after,
    bytes,
    windowEnd,
    records: records.map(({ key, value = null }) => [key, value]),
  });
}

function markOf(key: string, text: string): Mark {
  const stored: unknown = JSON.parse(text);
  const { after, bytes, windowEnd, records } = isRecord(stored) ? stored : {};
  const isWhole = typeof after === 'number' && typeof bytes === 'number' && Array.isArray(records);
  if (!isWhole) throw damage('spool', `not a batch: "${key}"`);
  return {
    number: Number(key.slice(BATCH_PREFIX.length)),
    after,
    bytes,
    ...(typeof windowEnd === 'number' && { windowEnd }),
    records: records.map(([name, value]: [string, string | null]) => ({
      key: name,
      value: value ?? undefined,
    })),
  };
}

function baseOf(text: string | undefined): SpoolBase | undefined {
  if (text === undefined) return undefined;
  const stored: unknown = JSON.parse(text);
  const { ledgerId, state } = isRecord(stored) ? stored : {};
  if (typeof ledgerId === 'string' && typeof state === 'string') return { ledgerId, state };
  throw damage('spool', `not what a spool begins with: "${text}"`);
}
