import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type GetManyOptions, type GetOptions, Level } from 'level';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import { damage } from '../failures.ts';
import { isMissing, syncDirectory } from './files.ts';
import { checkTables, noteTables, type TableChecksums } from './table-checksums.ts';

/** A LevelDB directory. The types of `level` do not say that a key may be missing; these do. */
export interface LevelDatabase<K, V> extends Omit<Level<K, V>, 'get' | 'getMany'> {
  get(key: K, options?: GetOptions<K, V>): Promise<V | undefined>;
  getMany(keys: K[], options?: GetManyOptions<K, V>): Promise<(V | undefined)[]>;
}

/** One directory of the ledger. Every write to it is synced. */
export type Database = LevelDatabase<Buffer, Buffer>;

/** What a database held at one moment; close it after use. */
export type Snapshot = ReturnType<Database['snapshot']>;

/** One change within a batch. */
export type Operation =
  | { readonly type: 'put'; readonly key: Buffer; readonly value: Buffer }
  | { readonly type: 'del'; readonly key: Buffer };

/** What is known of the table files of an open database. */
const tables = new WeakMap<Database, TableChecksums>();

/** Open tables are mapped into memory whole: 64 of 1 MiB. LevelDB accepts neither fewer nor smaller ones. */
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
 * Opens an existing database, after a look at its table files; it never creates one, because LevelDB
 * would hide a loss that way. Throws a LedgerReadError when a table file has changed.
 */
export async function openDatabase(directory: string, use: 'active' | 'sealed'): Promise<Database> {
  const checked = await checkTables(directory);
  const database = await open(directory, use === 'active' ? ACTIVE : SEALED, false);
  tables.set(database, checked);
  await noteDatabaseTables(database);
  return database;
}

/** Notes the checksums of the table files that LevelDB has written since; without room for it, next time. */
export async function noteDatabaseTables(database: Database): Promise<void> {
  const known = tables.get(database) ?? {};
  tables.set(database, await noteTables(database.location, known).catch(() => known));
}

export async function createDatabase(directory: string): Promise<Database> {
  return open(directory, ACTIVE, true);
}

async function open(directory: string, sizes: typeof ACTIVE, create: boolean): Promise<Database> {
  const database: Database = new Level<Buffer, Buffer>(directory, {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    createIfMissing: create,
    errorIfExists: create,
    ...sizes,
  });
  await database.open();
  try {
    // LevelDB does not sync the name CURRENT, by which alone its new files are found after a power cut.
    await syncDirectory(directory);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * The one way anything is written. LevelDB keeps a batch whole or not at all. A chained batch takes a
 * third of the time that an array of operations takes on the way into LevelDB; with a `turn` others have theirs
 * meanwhile, and nothing is stored before the last operation is on its way.
 */
export async function writeBatch(
  database: Database,
  operations: readonly Operation[],
  turn?: TimeSlice,
): Promise<void> {
  const batch = database.batch();
  try {
    for (const operation of operations) {
      if (turn?.isOver === true) await turn.next();
      if (operation.type === 'put') batch.put(operation.key, operation.value);
      else batch.del(operation.key);
    }
    await batch.write({ sync: true });
  } finally {
    await batch.close();
  }
}

/** The file by which LevelDB knows its tables. It only grows while a database is open. */
export interface ManifestNote {
  /** `MANIFEST-000123` */
  readonly name: string;
  readonly size: number;
}

/** Finds the MANIFEST that CURRENT names. Throws a LedgerReadError when either is missing or malformed. */
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
 * Compares a database's files with what was noted of them while it was last in use. To be called
 * before it is opened: opening a database with a shortened MANIFEST deletes the tables it has forgotten.
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
