import { hash } from 'node:crypto';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';

/** First byte of every key of a segment (docs/reference/ledger-format.md#keys-of-a-segment). */
export const KEY_SPACE = {
  event: 0x65, // e
  id: 0x64, // d
  batch: 0x62, // b
  record: 0x72, // r
  evidence: 0x78, // x
  cursor: 0x63, // c
  sealed: 0x73, // s
  state: 0x6d, // m
} as const;

export type KeySpace = (typeof KEY_SPACE)[keyof typeof KEY_SPACE];

/** Key spaces of the entries that every new segment gets a copy of, ascending. */
export const ENTRY_SPACES = [KEY_SPACE.cursor, KEY_SPACE.record, KEY_SPACE.sealed] as const;

/** The key of the state. */
export const STATE_KEY = Buffer.of(KEY_SPACE.state);

const SEQUENCE_BYTES = 8;
const NUMBER_KEY_BYTES = 1 + SEQUENCE_BYTES;
const ID_BYTES = 16;
const DERIVED_ID = new RegExp(`^${EVENT_ID_PREFIX}[0-9a-f]{${2 * ID_BYTES}}$`);

/** A key that ends in a sequence number, big-endian, so that LevelDB sorts by number. */
export function numberKey(space: KeySpace, sequence: number): Buffer {
  // Node's pool is much faster than a separate allocation.
  const key = Buffer.allocUnsafe(NUMBER_KEY_BYTES);
  key[0] = space;
  key[1] = 0;
  key[2] = 0;
  key.writeUIntBE(sequence, 3, 6);
  return key;
}

/** The sequence number in a key of {@link numberKey}; NaN for any other key. */
export function keyNumber(key: Buffer): number {
  if (key.length !== NUMBER_KEY_BYTES || key[1] !== 0 || key[2] !== 0) return Number.NaN;
  return key.readUIntBE(3, 6);
}

/**
 * The key of an event id: the 128 bits of a derived id, the hash of any other. So every key has the
 * same length, whatever clients choose.
 */
export function idKey(id: string): Buffer {
  const key = Buffer.allocUnsafe(1 + ID_BYTES);
  key[0] = KEY_SPACE.id;
  if (DERIVED_ID.test(id)) key.write(id.slice(EVENT_ID_PREFIX.length), 1, 'hex');
  else hash('sha256', id, 'buffer').copy(key, 1, 0, ID_BYTES);
  return key;
}

/** The value of an id's key: the sequence number of its event. */
export function encodeIdValue(sequence: number): Buffer {
  const value = Buffer.allocUnsafe(SEQUENCE_BYTES);
  value[0] = 0;
  value[1] = 0;
  value.writeUIntBE(sequence, 2, 6);
  return value;
}

/** The sequence number in a value of {@link encodeIdValue}; NaN for any other value. */
export function decodeIdValue(value: Buffer): number {
  return value.length === SEQUENCE_BYTES ? value.readUIntBE(2, 6) : Number.NaN;
}

/**
 * Whether an id is derived from the event (docs/reference/events.md#ids), which limits its window;
 * the ingest API refuses imitations.
 */
export function isDerivedId(id: string): boolean {
  return id.startsWith(EVENT_ID_PREFIX);
}

/** A key that ends in text. */
export function textKey(space: KeySpace, text: string): Buffer {
  const key = Buffer.allocUnsafe(1 + Buffer.byteLength(text));
  key[0] = space;
  key.write(text, 1);
  return key;
}

/** The text in a key of {@link textKey}. */
export function keyText(key: Buffer): string {
  return key.toString('utf8', 1);
}

/** The range of keys with a prefix. UTF-8 never contains the byte 0xff. */
export function keysFrom(prefix: Buffer): { gte: Buffer; lt: Buffer } {
  return { gte: prefix, lt: Buffer.concat([prefix, Buffer.of(0xff)]) };
}

/** All keys of one space. */
export function keysOf(space: KeySpace): { gte: Buffer; lt: Buffer } {
  return { gte: Buffer.of(space), lt: Buffer.of(space + 1) };
}
