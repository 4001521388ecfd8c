import type { Ledger } from '../ledger.ts';
import { KEY_SPACE, keysOf } from '../leveldb/keys.ts';
import { walkEntries } from '../leveldb/state.ts';
import { readRecords } from '../postgres/reading.ts';
import type { LedgerPlace } from './events.ts';
import { openInspection } from './inspection.ts';

/** What a ledger knows beside its events. */
export interface LedgerFacts extends Pick<Ledger, 'records'> {
  /** Events whose window ended until then may be deleted, milliseconds since the epoch. */
  readonly horizon: number;
  /** The end of the last closed window, milliseconds since the epoch; absent before the first. */
  readonly lastWindowEnd?: number;
}

/** Reads the records with certain prefixes into memory. */
export async function readFacts(
  place: LedgerPlace,
  prefixes: readonly string[],
): Promise<LedgerFacts> {
  const found = new Map<string, string>();
  const records = async function* withPrefix(prefix: string) {
    for (const entry of found) if (entry[0].startsWith(prefix)) yield entry;
  };
  if (typeof place !== 'string') {
    const { schema, contents, query } = place;
    const table = { table: `${schema}.published_record`, before: '' };
    for (const prefix of prefixes) {
      for await (const [key, value] of readRecords(query, table, prefix)) found.set(key, value);
    }
    return { ...contents.state, records };
  }
  const inspection = await openInspection(place);
  try {
    const newest = inspection.paths.at(-1);
    if (newest === undefined) return { horizon: 0, records };
    const segment = await inspection.open(newest);
    const { database, name, state } = segment;
    for await (const [key, , body] of walkEntries(database, name, keysOf(KEY_SPACE.record))) {
      const text = key.subarray(1).toString();
      if (prefixes.some((prefix) => text.startsWith(prefix))) found.set(text, body.toString());
    }
    await inspection.done(segment);
    return { horizon: state.horizon, lastWindowEnd: state.lastWindowEnd, records };
  } finally {
    await inspection.close();
  }
}
