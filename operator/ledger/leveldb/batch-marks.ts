import { openValue, sealValue, keySeed } from './checked-value.ts';
import type { Database, Operation } from './database.ts';
import { damage } from './failures.ts';
import { KEY_SPACE, keyNumber, numberKey } from './keys.ts';

/** The `b` entry that ends a batch of events. */
export interface BatchMark {
  readonly lastSequence: number;
  /** Milliseconds since the epoch. */
  readonly appendedAt: number;
  /** The chain value at the last event, hex. */
  readonly chain: string;
}

const TIME_BYTES = 8;
const READ_AHEAD_BYTES = 256 * 1024;

export function batchMarkOperation(mark: BatchMark): Operation {
  const key = numberKey(KEY_SPACE.batch, mark.lastSequence);
  const body = Buffer.alloc(TIME_BYTES);
  body.writeDoubleBE(mark.appendedAt);
  const chain = Buffer.from(mark.chain, 'hex');
  return { type: 'put', key, value: sealValue(keySeed(key), Buffer.concat([body, chain])) };
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
  return {
    lastSequence,
    appendedAt: body.readDoubleBE(),
    chain: body.toString('hex', TIME_BYTES),
  };
}
