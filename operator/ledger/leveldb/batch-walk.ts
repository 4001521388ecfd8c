import type { UsageEvent } from '../../model/event.ts';
import { damage } from '../failures.ts';
import { type BatchMark, walkBatchMarks } from './batch-marks.ts';
import type { Database } from './database.ts';
import { decodeStoredEvent, walkEvents } from './event-walk.ts';

/** Events that were appended together. */
export interface StoredBatch {
  readonly mark: BatchMark;
  readonly entries: readonly {
    readonly sequence: number;
    /** The exact stored text. */
    readonly text: string;
    readonly event: UsageEvent;
  }[];
}

/**
 * The batches from event `first` to event `last`, where a batch begins and ends. Checks every event
 * and throws a LedgerReadError at damage.
 */
export async function* readBatchesFrom(
  database: Database,
  where: string,
  first: number,
  last: number,
): AsyncGenerator<StoredBatch, void, void> {
  let next = first;
  for await (const mark of walkBatchMarks(database, where, first, last)) {
    const found: StoredBatch['entries'][number][] = [];
    for await (const entries of walkEvents(database, where, next, mark.lastSequence)) {
      for (const entry of entries) {
        const { sequence, body } = entry;
        found.push({ sequence, text: body.toString(), event: decodeStoredEvent(entry) });
      }
    }
    yield { mark, entries: found };
    next = mark.lastSequence + 1;
  }
  if (next <= last) throw damage(where, `the end of the batch at ${last} is missing`);
}
