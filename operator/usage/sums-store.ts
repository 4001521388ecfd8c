import { rm } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { Level } from 'level';
import type { LevelDatabase } from '../ledger/leveldb/database.ts';
import { type PeriodKind, PERIOD_MS, periodOf } from '../model/periods.ts';
import { EventPlaces, type SequenceRange } from './event-places.ts';
import { countEvents, SumRows } from './sum-rows.ts';

/** Of the events of a tenant in an hour: their sums, and where they are. */
export interface HourOfTenant {
  readonly rows: SumRows;
  readonly places: EventPlaces;
}

/** Sums to add, by period of an hour, then by tenant. */
export type SumChanges = ReadonlyMap<string, ReadonlyMap<string, HourOfTenant>>;

/**
 * Sums of usage by hour and by day, and where the events of each hour are, derived from the ledger and kept in a directory
 * of their own.
 */
export interface SumsStore {
  /** The sequence number up to which events are summed. */
  readonly progress: number;
  /**
   * Adds sums to those that are stored and moves the progress, as one durable unit. `first` is the earliest `window_start`
   * of the changes.
   */
  commit(changes: SumChanges, progress: number, first: string | undefined): Promise<void>;
  /** The encoded sums of a period: of one tenant, or of all. */
  read(
    kind: PeriodKind,
    period: string,
    tenant: string | undefined,
  ): AsyncIterable<readonly [tenant: string, sums: string]>;
  /**
   * Where in the ledger the events of a tenant in these hours are that are summed; undefined where that is not known of
   * each. Ranges may overlap and hold others' events as well.
   */
  places(hours: readonly string[], tenant: string): Promise<readonly SequenceRange[] | undefined>;
  /** The first period that is kept of a kind; undefined where there is none. */
  first(kind: PeriodKind): Promise<string | undefined>;
  /** The earliest `window_start` of the first sums; undefined where an earlier release stored those. */
  began(): Promise<string | undefined>;
  /** Forgets the periods that are older than they are kept. */
  expire(now: number): Promise<void>;
  /** Forgets everything; the progress is 0 again. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

/** Raised when the stored form changes: the sums are then made anew from the ledger. */
const FORMAT = 1;
const PROGRESS_KEY = 'progress';
const BEGAN_KEY = 'began';

/** Hours for a detailed look back, days for more than a year of invoices. */
export const KEPT_MS: Readonly<Record<PeriodKind, number>> = {
  hour: 35 * PERIOD_MS.day,
  day: 400 * PERIOD_MS.day,
};

/** Bytes of keys and values that an iteration fetches at a time. */
const READ_AHEAD_BYTES = 256 * 1024;

type Database = LevelDatabase<string, string>;

/** Opens the sums of a ledger; those that cannot be read, or are another's, are made anew from it. */
export async function openSumsStore(directory: string, ledgerId: string): Promise<SumsStore> {
  try {
    return await open(directory, ledgerId);
  } catch (error) {
    if (isLocked(error)) throw error;
    await rm(directory, { recursive: true, force: true });
    return open(directory, ledgerId);
  }
}

async function open(directory: string, ledgerId: string): Promise<SumsStore> {
  const database: Database = new Level(directory, { cacheSize: 2 * 1024 * 1024 });
  await database.open();
  try {
    return createStore(database, ledgerId, await readProgress(database, ledgerId));
  } catch (error) {
    await database.close();
    throw error;
  }
}

function createStore(database: Database, ledgerId: string, start: number): SumsStore {
  let progress = start;
  return {
    get progress() {
      return progress;
    },
    commit: async (changes, next, first) => {
      const merged = mergePeriods(changes);
      const keys = [...merged.keys()];
      const stored = await database.getMany(keys);
      const operations = keys.map((key, index) => {
        const before = stored[index];
        const change = merged.get(key) ?? new SumRows();
        const text = change.encodeAfter(before === undefined ? '[]' : unseal(key, before));
        return { type: 'put' as const, key, value: seal(key, text) };
      });
      const note = { type: 'put' as const, key: PROGRESS_KEY, value: progressText(ledgerId, next) };
      const isFirst = progress === 0 && first !== undefined;
      const began = isFirst
        ? [{ type: 'put' as const, key: BEGAN_KEY, value: seal(BEGAN_KEY, first) }]
        : [];
      await database.batch([...operations, ...began, note], { sync: true });
      progress = next;
    },
    read: async function* read(kind, period, tenant) {
      if (tenant !== undefined) {
        const key = keyOf(kind, period, tenant);
        const value = await database.get(key);
        if (value !== undefined) yield [tenant, unseal(key, value)];
        return;
      }
      const prefix = keyOf(kind, period, '');
      // "0" is the character after "/".
      const end = `${prefix.slice(0, -1)}0`;
      const range = { gte: prefix, lt: end, highWaterMarkBytes: READ_AHEAD_BYTES };
      for await (const [key, value] of database.iterator(range)) {
        yield [key.slice(prefix.length), unseal(key, value)];
      }
    },
    places: async (hours, tenant) => {
      const [sums, places] = [
        hours.map((hour) => keyOf('hour', hour, tenant)),
        hours.map((hour) => keyOf('places', hour, tenant)),
      ];
      const stored = await database.getMany([...sums, ...places]);
      const texts = [...sums, ...places].map((key, index) => {
        const value = stored[index];
        return value === undefined ? undefined : unseal(key, value);
      });
      const ranges: SequenceRange[] = [];
      for (const index of hours.keys()) {
        const [sum, place] = [texts[index], texts[hours.length + index]];
        const found = new EventPlaces();
        if (place !== undefined) found.addEncoded(place);
        // Of some events there are only sums: those of a release that kept no places.
        if (found.events !== (sum === undefined ? 0 : countEvents(sum))) return undefined;
        ranges.push(...found.ranges());
      }
      return ranges;
    },
    first: async (kind) => {
      const range = { gte: `${kind}/`, lt: `${kind}0`, limit: 1 };
      const [key] = await database.keys(range).all();
      return key?.split('/')[1];
    },
    began: async () => {
      const value = await database.get(BEGAN_KEY);
      return value === undefined ? undefined : unseal(BEGAN_KEY, value);
    },
    expire: async (now) => {
      for (const kind of ['hour', 'places', 'day'] as const) {
        const period = kind === 'places' ? 'hour' : kind;
        const oldest = periodOf(period, new Date(now - KEPT_MS[period]).toISOString());
        await database.clear({ gte: keyOf(kind, '', ''), lt: keyOf(kind, oldest, '') });
      }
    },
    clear: async () => {
      await database.clear();
      progress = 0;
    },
    close: () => database.close(),
  };
}

/** What is stored under one key. */
interface Change {
  /** With what is stored there already, `[]` where nothing is. Throws where that is not what this wrote. */
  encodeAfter(stored: string): string;
}

/** Hours as they are, and the days that they add up to, by key. */
function mergePeriods(changes: SumChanges): Map<string, Change> {
  const days = new Map<string, SumRows[]>();
  const merged = new Map<string, Change>();
  for (const [hour, tenants] of changes) {
    for (const [tenant, { rows, places }] of tenants) {
      merged.set(keyOf('hour', hour, tenant), rows);
      merged.set(keyOf('places', hour, tenant), places);
      const day = keyOf('day', periodOf('day', hour), tenant);
      const hours = days.get(day);
      if (hours === undefined) days.set(day, [rows]);
      else hours.push(rows);
    }
  }
  for (const [day, hours] of days) merged.set(day, SumRows.of(hours));
  return merged;
}

/** Periods have a fixed length within a kind, so the tenant may be any text. */
function keyOf(kind: PeriodKind | 'places', period: string, tenant: string): string {
  return period === '' ? `${kind}/` : `${kind}/${period}/${tenant}`;
}

/** A checksum over key and value: LevelDB gives back flipped bits without a word. */
function seal(key: string, text: string): string {
  return `${checksum(key, text)} ${text}`;
}

function unseal(key: string, value: string): string {
  const text = value.slice(9);
  if (value.slice(0, 8) === checksum(key, text)) return text;
  throw new DamagedSums(`damaged: usage sums: "${key}"`);
}

/** Stored sums are not as they were written. */
export class DamagedSums extends Error {}

function checksum(key: string, text: string): string {
  return crc32(text, crc32(key)).toString(16).padStart(8, '0');
}

function progressText(ledger: string, sequence: number): string {
  return seal(PROGRESS_KEY, JSON.stringify({ format: FORMAT, ledger, sequence }));
}

async function readProgress(database: Database, ledgerId: string): Promise<number> {
  const value = await database.get(PROGRESS_KEY);
  if (value === undefined) return 0;
  const text = unseal(PROGRESS_KEY, value);
  const { format, ledger, sequence } = JSON.parse(text) as Readonly<Record<string, unknown>>;
  if (format === FORMAT && ledger === ledgerId && typeof sequence === 'number') return sequence;
  throw new DamagedSums(`another format or ledger: usage sums: ${text}`);
}

function isLocked(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && cause.code === 'LEVEL_LOCKED';
}
