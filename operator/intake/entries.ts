import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import { IdFilter } from '../ledger/leveldb/id-filter.ts';
import { idKey } from '../ledger/leveldb/keys.ts';
import { decodeEntry, encodeEntry, type RequestEntry } from './entry.ts';

export const HOUR_MS = 3_600_000;

const ENTRIES = 'intake/entries/';
const HOUR_CHARACTERS = '2026-11-21T09'.length;
const CLOSED = 'intake/closed';
/** Records deleted in one write: others wait for it. */
const CHUNK = 1_000;

interface Hour {
  /** Rules out most keys that the hour does not contain, without a read. */
  readonly filter: IdFilter;
  entries: number;
}

/**
 * The accepted requests as records, one for each, by the hour of their time
 * (docs/reference/ledger-format.md#requests-of-ai-gateways):
 *
 *     intake/entries/<hour>/<key>   an accepted request
 *     intake/closed                 the newest closing
 *
 * Remembers a filter of each hour, so that a new request costs no read.
 */
export class Entries {
  readonly #ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
  readonly #hours = new Map<number, Hour>();

  constructor(ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>) {
    this.#ledger = ledger;
  }

  /** The number of remembered entries. */
  count(): number {
    return [...this.#hours.values()].reduce((sum, { entries }) => sum + entries, 0);
  }

  /** All stored entries. Remembers them, and their hours. */
  async *load(): AsyncGenerator<RequestEntry> {
    this.#hours.clear();
    for await (const [key, value] of this.#ledger.records(ENTRIES)) {
      const slash = ENTRIES.length + HOUR_CHARACTERS;
      const hour = Date.parse(`${key.slice(ENTRIES.length, slash)}:00:00Z`);
      this.remember(hour, key.slice(slash + 1));
      yield decodeEntry(value);
    }
  }

  /** Records that an entry is stored, or may be. */
  remember(at: number, key: string): void {
    const start = hourOf(at);
    const hour = this.#hours.get(start) ?? { filter: new IdFilter(), entries: 0 };
    this.#hours.set(start, hour);
    hour.filter.add(idKey(key));
    hour.entries += 1;
  }

  /** The stored entry with a key; undefined if there is none. */
  async find(key: string): Promise<RequestEntry | undefined> {
    const id = idKey(key);
    for (const [hour, { filter }] of this.#hours) {
      if (!filter.mayHave(id)) continue;
      const value = await this.#ledger.record(entryKey(hour, key));
      if (value !== undefined) return decodeEntry(value);
    }
    return undefined;
  }

  put(at: number, key: string, entry: RequestEntry): RecordChange {
    return { key: entryKey(at, key), value: encodeEntry(entry) };
  }

  /** The end of the newest hour that ended at or before a time; undefined if there is none. */
  endBefore(time: number): number | undefined {
    const ends = [...this.#hours.keys()].map((hour) => hour + HOUR_MS);
    const ended = ends.filter((end) => end <= time);
    return ended.length === 0 ? undefined : Math.max(...ended);
  }

  /** Deletes the hours before a time. A failed write ends it; the next call continues. */
  async drop(from: number): Promise<void> {
    for (const hour of this.#hours.keys()) {
      if (hour >= from) continue;
      let gone: RecordChange[] = [];
      for await (const [key] of this.#ledger.records(entryKey(hour, ''))) {
        gone.push({ key, value: undefined });
        if (gone.length < CHUNK) continue;
        if ((await this.#ledger.writeRecords(gone)).kind === 'failed') return;
        gone = [];
      }
      if (gone.length > 0 && (await this.#ledger.writeRecords(gone)).kind === 'failed') return;
      this.#hours.delete(hour);
    }
  }

  closed(): Promise<string | undefined> {
    return this.#ledger.record(CLOSED);
  }

  putClosed(value: string): RecordChange {
    return { key: CLOSED, value };
  }
}

export function hourOf(at: number): number {
  return Math.floor(at / HOUR_MS) * HOUR_MS;
}

function entryKey(at: number, key: string): string {
  return `${ENTRIES}${new Date(at).toISOString().slice(0, HOUR_CHARACTERS)}/${key}`;
}
