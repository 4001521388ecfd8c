import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ClassicLevel, type GetManyOptions, type GetOptions } from 'classic-level';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import { damage } from '../failures.ts';
import { isMissing, syncDirectory } from './files.ts';
import { checkTables, noteTables, type TableChecksums } from './table-checksums.ts';

/** A LevelDB directory. Unlike the library's types, these state that a key may be missing. */
export interface LevelDatabase<K, V> extends Omit<ClassicLevel<K, V>, 'get' | 'getMany'> {
  get(key: K, options?: GetOptions<K, V>): Promise<V | undefined>;
  getMany(keys: K[], options?: GetManyOptions<K, V>): Promise<(V | undefined)[]>;
}

/** One segment's LevelDB directory. Every write to it is synced. */
export type Database = LevelDatabase<Buffer, Buffer>;

/** A database's content at one moment; close it after use. */
export type Snapshot = ReturnType<Database['snapshot']>;

/** One change within a batch. */
export type Operation =
  | { readonly type: 'put'; readonly key: Buffer; readonly value: Buffer }
  | { readonly type: 'del'; readonly key: Buffer };

/** Checksums of the table files of each open database. */
const tables = new WeakMap<Database, TableChecksums>();

/** Open tables are mapped into memory: 64 of 1 MiB, the fewest and smallest of LevelDB. */
const MAX_OPEN_FILES = 74;
const MAX_TABLE_BYTES = 1024 * 1024;
const ACTIVE = {
  writeBufferSize: 8 * 1024 * 1024,
  cacheSize: 8 * 1024 * 1024,
  maxOpenFiles: MAX_OPEN_FILES,
  maxFileSize: MAX_TABLE_BYTES,
};
const SEALED = {
  writeBufferSize: 1024 * 1024,
  cacheSize: 2 * 1024 * 1024,
  maxOpenFiles: MAX_OPEN_FILES,
  maxFileSize: MAX_TABLE_BYTES,
};

/**
 * Opens an existing database after checking its table files. It never creates one, because LevelDB
 * would hide a loss by that. Throws a LedgerReadError if a table file has changed.
 */
export async function openDatabase(directory: string, use: 'active' | 'sealed'): Promise<Database> {
  const checked = await checkTables(directory);
  const database = await open(directory, use === 'active' ? ACTIVE : SEALED, false);
  tables.set(database, checked);
  await noteDatabaseTables(database);
  return database;
}

/** Stores the checksums of new table files of LevelDB. On a full volume the next call does. */
export async function noteDatabaseTables(database: Database): Promise<void> {
  const known = tables.get(database) ?? {};
  tables.set(database, await noteTables(database.location, known).catch(() => known));
}

export async function createDatabase(directory: string): Promise<Database> {
  return open(directory, ACTIVE, true);
}

async function open(directory: string, sizes: typeof ACTIVE, create: boolean): Promise<Database> {
  const database: Database = new ClassicLevel<Buffer, Buffer>(directory, {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    createIfMissing: create,
    errorIfExists: create,
    ...sizes,
  });
  await database.open();
  try {
    // LevelDB does not sync the name CURRENT, which leads to its new files after a power cut.
    await syncDirectory(directory);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Writes all operations atomically and synced; every write uses this function. A chained batch
 * takes a third of the time of an array of operations. With a `slice` other work runs in between;
 * LevelDB stores nothing before the batch is complete.
 */
export async function writeBatch(
  database: Database,
  operations: readonly Operation[],
  slice?: TimeSlice,
): Promise<void> {
  const batch = database.batch();
  try {
    for (const operation of operations) {
      if (slice?.isOver === true) await slice.next();
      if (operation.type === 'put') batch.put(operation.key, operation.value);
      else batch.del(operation.key);
    }
    await batch.write({ sync: true });
  } finally {
    await batch.close();
  }
}

/** Size of a MANIFEST, LevelDB's list of its tables. It only grows while a database is open. */
export interface ManifestNote {
  /** `MANIFEST-000123` */
  readonly name: string;
  readonly size: number;
}

/** Reads the MANIFEST that CURRENT names. Throws LedgerReadError if one is missing or malformed. */
export async function readManifestNote(directory: string): Promise<ManifestNote> {
  const current = join(directory, 'CURRENT');
  const text = await readFile(current, 'utf8').catch((error: unknown) => {
    throw isMissing(error) ? damage(current, 'missing') : error;
  });
  const name = /^(MANIFEST-\d{6,})\n$/.exec(text)?.[1];
  if (name === undefined) throw damage(current, `not the name of a MANIFEST: "${text}"`);
  const found = await stat(join(directory, name)).catch((error: unknown) => {
    throw isMissing(error) ? damage(join(directory, name), 'missing') : error;
  });
  return { name, size: found.size };
}

/**
 * Compares a database's MANIFEST with the one noted in its last use. Call it before opening:
 * LevelDB deletes the tables that a shortened MANIFEST lacks. Throws a LedgerReadError if it is
 * older or shorter.
 */
export async function checkManifest(directory: string, noted: ManifestNote): Promise<void> {
  const found = await readManifestNote(directory);
  if (manifestNumber(found) < manifestNumber(noted)) {
    throw damage(join(directory, 'CURRENT'), `older than ${noted.name}: "${found.name}"`);
  }
  if (found.name === noted.name && found.size < noted.size) {
    throw damage(join(directory, found.name), `${noted.size} bytes before: "${found.size}"`);
  }
}

function manifestNumber(note: ManifestNote): number {
  return Number(note.name.slice('MANIFEST-'.length));
}
