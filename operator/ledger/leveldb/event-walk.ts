import { setImmediate as yieldToLoop } from 'node:timers/promises';
import { decodeEvent, type UsageEvent } from '../../model/event.ts';
import { openValue } from '../checked-value.ts';
import { sequenceSeed } from '../event-chain.ts';
import type { Database } from './database.ts';
import { damage } from '../failures.ts';
import { KEY_SPACE, keyNumber, numberKey } from './keys.ts';
import { parseInstant } from './parse-instant.ts';

/** An event as it is stored. */
export interface EventEntry {
  readonly sequence: number;
  /** The complete value, from which the chain is calculated. */
  readonly value: Buffer;
  readonly body: Buffer;
}

/** Window start of a stored event, milliseconds since the epoch; parses only this field. */
export function windowStartOf({ body }: EventEntry): number {
  return parseInstant(fieldOf(body.toString('latin1'), 'window_start'));
}

/** Reads one field of an event's text. Parses the complete text only if the field is ambiguous. */
export function fieldOf(text: string, name: 'tenant' | 'window_start'): string {
  const label = `"${name}":"`;
  const from = text.indexOf(label) + label.length;
  const field = text.slice(from, text.indexOf('"', from));
  // A property may have the same name, and a quote in a text follows a backslash.
  const isCertain = from >= label.length && !text.includes(label, from) && !field.includes('\\');
  return isCertain ? field : decodeEvent(text)[name];
}

const CHUNK_EVENTS = 128;
/** So few events are faster to read by key than by an iterator. */
const FEW_EVENTS = 32;
const READ_AHEAD_BYTES = 64 * 1024;

/** The event of an entry with a verified checksum. */
export function decodeStoredEvent(entry: EventEntry): UsageEvent {
  return decodeEvent(entry.body.toString());
}

/**
 * Every event from `first` to `last` in chunks, with checksum and number verified. Throws a
 * LedgerReadError at the first damaged or missing event and never skips one.
 */
export async function* walkEvents(
  database: Database,
  where: string,
  first: number,
  last: number,
): AsyncGenerator<readonly EventEntry[], void, void> {
  if (last - first < FEW_EVENTS) {
    if (first <= last) yield await readFew(database, where, first, last);
    return;
  }
  const iterator = database.iterator({
    gte: numberKey(KEY_SPACE.event, first),
    lte: numberKey(KEY_SPACE.event, last),
    fillCache: false,
    highWaterMarkBytes: READ_AHEAD_BYTES,
  });
  try {
    let expected = first;
    while (expected <= last) {
      const found = await iterator.nextv(Math.min(CHUNK_EVENTS, last - expected + 1));
      if (found.length === 0) throw damage(where, `event ${expected} is missing`);
      const start = expected;
      yield found.map(([key, value], index) => checkEntry(where, start + index, key, value));
      expected += found.length;
      await yieldToLoop();
    }
    // LevelDB keeps the last chunk until garbage collection, so read an empty one.
    await iterator.nextv(1);
  } finally {
    await iterator.close();
  }
}

async function readFew(
  database: Database,
  where: string,
  first: number,
  last: number,
): Promise<readonly EventEntry[]> {
  const keys = Array.from({ length: last - first + 1 }, (_, index) =>
    numberKey(KEY_SPACE.event, first + index),
  );
  const values = await database.getMany(keys, { fillCache: false });
  return keys.map((key, index) => checkEntry(where, first + index, key, values[index]));
}

/** Reads one event. Throws a LedgerReadError if it is damaged or missing. */
export async function readEvent(
  database: Database,
  where: string,
  sequence: number,
): Promise<UsageEvent> {
  const key = numberKey(KEY_SPACE.event, sequence);
  const value = await database.get(key);
  return decodeStoredEvent(checkEntry(where, sequence, key, value));
}

function checkEntry(
  where: string,
  expected: number,
  key: Buffer,
  value: Buffer | undefined,
): EventEntry {
  const sequence = keyNumber(key);
  if (value === undefined || sequence !== expected)
    throw damage(where, `event ${expected} is missing`);
  const body = openValue(sequenceSeed(sequence), value);
  if (body === undefined) throw damage(where, `event ${sequence} is damaged`);
  return { sequence, value, body };
}
