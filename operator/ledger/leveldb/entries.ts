import type { Cursor } from '../ledger.ts';
import { checksumOf, openValue, keySeed } from './checked-value.ts';
import type { Database, Snapshot } from './database.ts';
import { damage } from './failures.ts';
import { ENTRY_SPACES, KEY_SPACE, keysOf, STATE_KEY } from './keys.ts';
import {
  addEntry,
  decodeState,
  type LedgerState,
  NO_ENTRIES,
  type SealedSegment,
} from './state.ts';

/** What the active segment holds beside events, as far as it is kept in memory. */
export interface Contents {
  readonly state: LedgerState;
  readonly cursors: ReadonlyMap<string, Cursor>;
  /** Ascending. */
  readonly sealed: readonly SealedSegment[];
}

/** Entries of one key space, each with its checksum checked. Throws a LedgerReadError at a damaged one. */
export async function* walkEntries(
  database: Database,
  where: string,
  range: { readonly gte: Buffer; readonly lt: Buffer },
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
 * Reads the state of an active segment and checks all entries against the sum in it. Throws a
 * LedgerReadError when any is damaged, lost or out of date. With a snapshot, as of then.
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
