import type { Cursor } from '../ledger.ts';
import { openValue, sealValue, keySeed, checksumOf } from '../checked-value.ts';
import type { Database, Snapshot } from './database.ts';
import { damage } from '../failures.ts';
import { STATE_KEY, ENTRY_SPACES, KEY_SPACE, keysOf } from './keys.ts';

/** A closed range of times, milliseconds since the epoch. */
export interface TimeBounds {
  readonly from: number;
  readonly to: number;
}

/** Summary of a segment, known without opening it. */
export interface SegmentSummary {
  readonly firstSequence: number;
  /** `firstSequence - 1` while it is empty. */
  readonly lastSequence: number;
  /** The chain value before its first event, hex. */
  readonly firstChain: string;
  /** The chain value at its last event, hex. */
  readonly chain: string;
  /** Append time when it began, milliseconds since the epoch. */
  readonly openedAt: number;
  /** Uncompressed bytes of its events. */
  readonly bytes: number;
  /** Window starts of its events; absent while it is empty. */
  readonly starts?: TimeBounds;
  /** Window ends of its events; absent while it is empty. */
  readonly ends?: TimeBounds;
  /** True if an id is not derived from its event, so that the id does not limit the window. */
  readonly foreignIds: boolean;
}

/** A segment that is never written again. */
export interface SealedSegment extends SegmentSummary {
  /** Milliseconds since the epoch. */
  readonly sealedAt: number;
  /** The damage for which it was sealed. */
  readonly damage?: string;
  /** An operator has accepted that its events are lost: nothing reads it. */
  readonly givenUp?: true;
}

/** The `m` entry of the active segment; every batch rewrites it. */
export interface LedgerState {
  readonly ledgerId: string;
  /** Number of the last batch since the ledger was created. */
  readonly batch: number;
  /** Absent if an older release wrote everything. */
  readonly link?: ChainLink;
  readonly segment: SegmentSummary;
  /** The sequence number before the oldest stored event. */
  readonly lowWater: number;
  /** Window end of the newest deleted event, milliseconds since the epoch. */
  readonly horizon: number;
  readonly lastWindowEnd?: number;
  readonly entries: EntrySum;
}

/** Position at which the chain changes its form (docs/reference/ledger-format.md#the-link). */
export interface ChainLink {
  /** Batches that begin at this sequence number or later are chained by their trees. */
  readonly from: number;
  /** The chain value before them, hex. */
  readonly previous: string;
}

/** The link after the last event of a segment. */
export function linkAfter({ lastSequence, chain }: SegmentSummary): ChainLink {
  return { from: lastSequence + 1, previous: chain };
}

/** Count and checksum sum of all records, cursors and list items. */
export interface EntrySum {
  readonly count: number;
  readonly sum: number;
}

export const NO_ENTRIES: EntrySum = { count: 0, sum: 0 };

const SUM_MODULUS = 2 ** 48;

/** The sum with an entry's checksum added. */
export function addEntry(sum: EntrySum, checksum: number): EntrySum {
  return { count: sum.count + 1, sum: (sum.sum + checksum) % SUM_MODULUS };
}

/** The sum without an entry's checksum. */
export function removeEntry(sum: EntrySum, checksum: number): EntrySum {
  return { count: sum.count - 1, sum: (sum.sum - checksum + SUM_MODULUS) % SUM_MODULUS };
}

export function encodeState(state: LedgerState): Buffer {
  return sealValue(keySeed(STATE_KEY), JSON.stringify(state));
}

/** The state in a value of {@link encodeState}; undefined if it is damaged. */
export function decodeState(value: Buffer | undefined): LedgerState | undefined {
  const body = value === undefined ? undefined : openValue(keySeed(STATE_KEY), value);
  return body === undefined ? undefined : (JSON.parse(body.toString()) as LedgerState);
}

/** The parts of the active segment that are kept in memory. */
export interface Contents {
  readonly state: LedgerState;
  readonly cursors: ReadonlyMap<string, Cursor>;
  /** Ascending. */
  readonly sealed: readonly SealedSegment[];
}

/** Entries of one key space with verified checksums. Throws LedgerReadError at a damaged one. */
export async function* walkEntries(
  database: Database,
  where: string,
  range: { readonly gt?: Buffer; readonly gte?: Buffer; readonly lt: Buffer },
  snapshot?: Snapshot,
): AsyncGenerator<readonly [key: Buffer, value: Buffer, body: Buffer], void, void> {
  for await (const [key, value] of database.iterator({
    ...range,
    snapshot,
    fillCache: false,
  })) {
    const body = openValue(keySeed(key), value);
    if (body === undefined) throw damage(where, `the entry "${key.toString()}" is damaged`);
    yield [key, value, body];
  }
}

/**
 * Reads the state of an active segment and compares all entries with the sum in it; with a
 * snapshot, as of that moment. Throws a LedgerReadError if anything is damaged, lost or out of
 * date.
 */
export async function readContents(
  database: Database,
  where: string,
  snapshot?: Snapshot,
): Promise<Contents> {
  const state = decodeState(await database.get(STATE_KEY, { snapshot }));
  if (state === undefined) throw damage(where, 'the state is missing or damaged');
  const cursors = new Map<string, Cursor>();
  const sealed: SealedSegment[] = [];
  let entries = NO_ENTRIES;
  for (const space of ENTRY_SPACES) {
    for await (const [, value, body] of walkEntries(database, where, keysOf(space), snapshot)) {
      entries = addEntry(entries, checksumOf(value));
      if (space === KEY_SPACE.cursor) {
        const cursor = JSON.parse(body.toString()) as Cursor;
        cursors.set(cursor.destination, cursor);
      }
      if (space === KEY_SPACE.sealed) sealed.push(JSON.parse(body.toString()) as SealedSegment);
    }
  }
  if (entries.count !== state.entries.count || entries.sum !== state.entries.sum) {
    throw damage(
      where,
      `records or cursors are lost or out of date: ${state.entries.count} expected: "${entries.count}"`,
    );
  }
  return { state, cursors, sealed };
}
