import { LedgerReadError, type ReadOutcome, type StoredEvent } from '../ledger.ts';
import { keySeed, openValue } from '../checked-value.ts';
import { EVIDENCE_MS, evidenceHourIn, isEvidence } from '../evidence-keys.ts';
import { readBatchMark } from './batch-marks.ts';
import { decodeStoredEvent, walkEvents } from './event-walk.ts';
import { damage } from '../failures.ts';
import { toLedgerFailure } from './failures.ts';
import { readableSegments, type StoreView, useSegment } from './find-stored.ts';
import { KEY_SPACE, keysFrom, keyText, textKey } from './keys.ts';
import type { PageStarts } from './page-starts.ts';
import { parseInstant } from './parse-instant.ts';

const MAX_PAGE_EVENTS = 5_000;

/** Reads a page of events after a sequence number; a page ends at the end of a segment. */
export async function readPage(
  view: StoreView,
  afterSequence: number,
  limit: number,
): Promise<ReadOutcome> {
  const segment = readableSegments(view).find(
    (candidate) => candidate.lastSequence > afterSequence,
  );
  if (segment === undefined) return { kind: 'page', events: [], lastSequence: afterSequence };
  const first = Math.max(afterSequence + 1, segment.firstSequence);
  const last = Math.min(segment.lastSequence, first + Math.min(limit, MAX_PAGE_EVENTS) - 1);
  const events: StoredEvent[] = [];
  try {
    await useSegment(view, segment, async (database, where) => {
      for await (const entries of walkEvents(database, where, first, last)) {
        for (const entry of entries) {
          events.push({ sequence: entry.sequence, event: decodeStoredEvent(entry) });
        }
      }
    });
  } catch (error) {
    return toLedgerFailure(`reading after ${afterSequence}`, error);
  }
  return { kind: 'page', events, lastSequence: last };
}

/** Events whose window starts in `[from, to)`. Skips segments and pages known to have none. */
export async function* scanEvents(
  view: () => StoreView,
  pages: PageStarts,
  from: number,
  to: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredEvent, void, void> {
  let after = 0;
  for (;;) {
    signal?.throwIfAborted();
    const segment = readableSegments(view()).find(
      ({ lastSequence, starts }) =>
        lastSequence > after && starts !== undefined && starts.from < to && starts.to >= from,
    );
    if (segment === undefined) return;
    const first = Math.max(after + 1, segment.firstSequence);
    after = pages.lastOf(first);
    if (pages.hasNone(first, from, to)) continue;
    const page = await readPage(view(), first - 1, after - first + 1);
    if (page.kind === 'failed') throw new LedgerReadError(page);
    after = page.lastSequence;
    const starts = page.events.map(({ event }) => parseInstant(event.window_start));
    pages.learn(first, after, starts);
    for (const [index, stored] of page.events.entries()) {
      const start = starts[index] ?? from;
      if (start >= from && start < to) yield stored;
    }
  }
}

/**
 * The chain value of the batch that ends with this event: `''` if no batch ends there, undefined if
 * the event is not stored. Throws a LedgerReadError if the value cannot be read.
 */
export async function chainAt(view: StoreView, sequence: number): Promise<string | undefined> {
  const segment = readableSegments(view).find(
    ({ firstSequence, lastSequence }) => firstSequence <= sequence && sequence <= lastSequence,
  );
  if (segment === undefined) return undefined;
  try {
    return await useSegment(view, segment, async (database, where) => {
      const mark = await readBatchMark(database, where, sequence);
      return mark?.chain ?? '';
    });
  } catch (error) {
    throw new LedgerReadError(toLedgerFailure('reading the chain', error));
  }
}

const PAGE_RECORDS = 500;

/** Reads one record; undefined if there is none. Throws a LedgerReadError if it is damaged. */
export async function readRecord(view: StoreView, key: string): Promise<string | undefined> {
  if (isEvidence(key)) {
    for await (const [found, text] of readEvidence(view, key)) if (found === key) return text;
    return undefined;
  }
  const stored = textKey(KEY_SPACE.record, key);
  const value = await view.active.get(stored);
  return value === undefined ? undefined : recordText(view.activeName, stored, value);
}

/**
 * The records whose keys begin with `prefix`, in key order, read by pages. Includes evidence only
 * if the prefix names it.
 */
export async function* readRecords(
  view: () => StoreView,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  if (isEvidence(prefix)) {
    yield* readEvidence(view(), prefix);
    return;
  }
  const range = keysFrom(textKey(KEY_SPACE.record, prefix));
  for (let { gte } = range; ; ) {
    const { active, activeName } = view();
    const page = await active.iterator({ gte, lt: range.lt, limit: PAGE_RECORDS }).all();
    for (const [key, value] of page) yield [keyText(key), recordText(activeName, key, value)];
    const last = page.at(-1)?.[0];
    if (last === undefined || page.length < PAGE_RECORDS) return;
    gte = Buffer.concat([last, Buffer.of(0)]);
  }
}

/** The evidence in the segments that have events of its hour, oldest first. */
async function* readEvidence(
  view: StoreView,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  const from = evidenceHourIn(prefix);
  const range = keysFrom(textKey(KEY_SPACE.evidence, prefix));
  for (const segment of readableSegments(view)) {
    const { starts } = segment;
    const isOfHour = starts !== undefined && from !== undefined;
    if (isOfHour && (starts.from >= from + EVIDENCE_MS || starts.to < from)) continue;
    const found = await useSegment(view, segment, async (database, where) => {
      const rows = await database.iterator({ ...range, fillCache: false }).all();
      return rows.map(([key, value]) => [keyText(key), recordText(where, key, value)] as const);
    });
    yield* found;
  }
}

function recordText(where: string, key: Buffer, value: Buffer): string {
  const body = openValue(keySeed(key), value);
  if (body === undefined) throw damage(where, `the record is damaged: "${keyText(key)}"`);
  return body.toString();
}
