import { randomBytes } from 'node:crypto';
import {
  createDatabase,
  type Operation,
  writeBatch,
} from '../../operator/ledger/leveldb/database.ts';
import { encodeIdValue, KEY_SPACE, numberKey } from '../../operator/ledger/leveldb/keys.ts';

/** Writes the least that can be called a ledger entry for each event. */
export interface BareLedger {
  append(events: readonly unknown[]): Promise<void>;
}

/**
 * Bare classic-level with an entry for each event and one for its id, as the ledger has, synced, what
 * waits becoming one batch; without checks, checksums, chain or a look whether an id is known.
 */
export async function createBareLedger(directory: string): Promise<BareLedger> {
  const database = await createDatabase(directory);
  let waiting: Operation[] = [];
  let sequence = 0;
  let next: Promise<void> | undefined;
  let writing = Promise.resolve();

  const writeNext = async (): Promise<void> => {
    await writing;
    const operations = waiting;
    waiting = [];
    next = undefined;
    writing = writeBatch(database, operations);
    await writing;
  };

  return {
    append(events) {
      for (const event of events) {
        sequence += 1;
        const value = Buffer.from(JSON.stringify(event));
        waiting.push({ type: 'put', key: numberKey(KEY_SPACE.event, sequence), value });
        const id = Buffer.concat([Buffer.of(KEY_SPACE.id), randomBytes(16)]);
        waiting.push({ type: 'put', key: id, value: encodeIdValue(sequence) });
      }
      next ??= writeNext();
      return next;
    },
  };
}
