import { openValue, sealValue, keySeed } from '../checked-value.ts';
import type { Database, Operation } from './database.ts';
import { damage } from '../failures.ts';
import { KEY_SPACE, keyNumber, numberKey } from './keys.ts';

/** The `b` entry that ends a batch of events. */
export interface BatchMark {
  readonly lastSequence: number;
  /** Milliseconds since the epoch. */
  readonly appendedAt: number;
  /** The chain value at the last event, hex. */
  readonly chain: string;
  /**
   * The root of the batch's tree, hex. A proof for a tenant without events in the batch needs only
   * this. Absent before the link.
   */
  readonly root?: string;
}

const READ_AHEAD_BYTES = 256 * 1024;

export function batchMarkOperation({ lastSequence, ...mark }: BatchMark): Operation {
  const key = numberKey(KEY_SPACE.batch, lastSequence);
  const value = sealValue(keySeed(key), JSON.stringify(mark));
  return { type: 'put', key, value };
}

export async function readBatchMark(
  database: Database,
  where: string,
  lastSequence: number,
): Promise<BatchMark | undefined> {
  const key = numberKey(KEY_SPACE.batch, lastSequence);
  const value = await database.get(key);
  return value === undefined ? undefined : decodeMark(where, key, value);
}

/** The last mark from event `first` to before event `sequence`; undefined if there is none. */
export async function markBefore(
  database: Database,
  where: string,
  first: number,
  sequence: number,
): Promise<BatchMark | undefined> {
  const range = {
    gte: numberKey(KEY_SPACE.batch, first),
    lt: numberKey(KEY_SPACE.batch, sequence),
    reverse: true,
    limit: 1,
  };
  const [entry] = await database.iterator(range).all();
  return entry && decodeMark(where, ...entry);
}

/** The batch marks of a range of sequence numbers, ascending. */
export async function* walkBatchMarks(
  database: Database,
  where: string,
  first: number,
  last: number,
): AsyncGenerator<BatchMark, void, void> {
  const range = {
    gte: numberKey(KEY_SPACE.batch, first),
    lte: numberKey(KEY_SPACE.batch, last),
    fillCache: false,
    highWaterMarkBytes: READ_AHEAD_BYTES,
  };
  for await (const [key, value] of database.iterator(range)) yield decodeMark(where, key, value);
}

function decodeMark(where: string, key: Buffer, value: Buffer): BatchMark {
  const lastSequence = keyNumber(key);
  const body = openValue(keySeed(key), value);
  if (body === undefined) throw damage(where, `the end of the batch at ${lastSequence} is damaged`);
  const mark = JSON.parse(body.toString()) as Omit<BatchMark, 'lastSequence'>;
  return { ...mark, lastSequence };
}
