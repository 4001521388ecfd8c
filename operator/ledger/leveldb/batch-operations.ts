import type { Turn } from '../../telemetry/turn.ts';
import { checksumOf, keySeed, sealValue } from '../checked-value.ts';
import type { RecordChange } from '../ledger.ts';
import { BatchTree, chainValue, encodeStoredEvents } from '../event-chain.ts';
import type { Operation, Database } from './database.ts';
import type { OfferedEvent, StoreView } from './find-stored.ts';
import { parseInstant } from './parse-instant.ts';
import { batchMarkOperation } from './batch-marks.ts';
import { encodeIdValue, isDerivedId, KEY_SPACE, numberKey, textKey } from './keys.ts';
import {
  type SegmentSummary,
  type TimeRange,
  addEntry,
  type EntrySum,
  removeEntry,
} from './state.ts';

/** A change of one entry: a record, a cursor or a line of the list of sealed segments. */
export interface EntryChange {
  readonly key: Buffer;
  /** undefined deletes. */
  readonly body: string | undefined;
}

/** The operations that store events at the end of a segment, and the segment's summary after them. Their ids enter the filter. */
export function planEvents(
  accepted: readonly OfferedEvent[],
  before: SegmentSummary,
  { deduplicate, ids }: Pick<StoreView, 'deduplicate' | 'ids'>,
  now: number,
): { readonly operations: readonly Operation[]; readonly segment: SegmentSummary } {
  const operations: Operation[] = [];
  if (accepted.length === 0) return { operations, segment: before };
  const first = before.lastSequence + 1;
  const texts = accepted.map(({ text }) => text);
  const { values, bytes } = encodeStoredEvents(first, texts);
  const tree = new BatchTree();
  let { starts, ends, foreignIds } = before;
  for (const [index, value] of values.entries()) {
    const sequence = first + index;
    operations.push({ type: 'put', key: numberKey(KEY_SPACE.event, sequence), value });
    const offer = accepted[index];
    if (offer === undefined) continue;
    const { event, key, text } = offer;
    tree.add(sequence, event.tenant, text);
    if (deduplicate) {
      // Before they are stored, so that the filter knows them whatever becomes of the batch.
      ids.add(key);
      operations.push({ type: 'put', key, value: encodeIdValue(sequence) });
    }
    starts = widen(starts, parseInstant(event.window_start));
    ends = widen(ends, parseInstant(event.window_end));
    foreignIds ||= !isDerivedId(event.id);
  }
  const lastSequence = before.lastSequence + accepted.length;
  const root = tree.root();
  const chain = chainValue(before.chain, first, root);
  operations.push(batchMarkOperation({ lastSequence, appendedAt: now, chain, root }));
  const segment: SegmentSummary = {
    ...before,
    lastSequence,
    chain,
    bytes: before.bytes + bytes.length,
    foreignIds,
    ...(starts !== undefined && { starts }),
    ...(ends !== undefined && { ends }),
  };
  return { operations, segment };
}

/** What stores evidence in the segment of its events. It is not in the sum of all entries, and no new segment gets a copy. */
export function evidenceOperation({ key: text, value }: RecordChange): Operation {
  const key = textKey(KEY_SPACE.evidence, text);
  if (value === undefined) return { type: 'del', key };
  return { type: 'put', key, value: sealValue(keySeed(key), value) };
}

/** The range that also covers a time. */
function widen(range: TimeRange | undefined, time: number): TimeRange {
  if (range === undefined) return { from: time, to: time };
  if (time < range.from) return { ...range, from: time };
  return time > range.to ? { ...range, to: time } : range;
}

/** The operations of entry changes, and the sum of all entries after them; thousands of them in turns. */
export async function planChanges(
  changes: readonly EntryChange[],
  before: EntrySum,
  database: Database,
  turn: Turn,
): Promise<{ readonly operations: readonly Operation[]; readonly sum: EntrySum }> {
  const operations: Operation[] = [];
  if (changes.length === 0) return { operations, sum: before };
  let sum = before;
  const oldValues = await database.getMany(changes.map(({ key }) => key));
  for (const [index, { key, body }] of changes.entries()) {
    if (turn.isOver) await turn.next();
    const old = oldValues[index];
    if (old !== undefined) sum = removeEntry(sum, checksumOf(old));
    if (body !== undefined) {
      const value = sealValue(keySeed(key), body);
      sum = addEntry(sum, checksumOf(value));
      operations.push({ type: 'put', key, value });
      continue;
    }
    if (old !== undefined) operations.push({ type: 'del', key });
  }
  return { operations, sum };
}
