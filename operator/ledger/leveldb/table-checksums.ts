import { open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { damage } from '../failures.ts';
import { syncDirectory, writeFileDurably } from './files.ts';

/** Checksums of LevelDB's table files by name, in the file TABLES beside them. */
export type TableChecksums = Readonly<Record<string, TableChecksum>>;

interface TableChecksum {
  readonly size: number;
  readonly crc: number;
  /** Distinguishes a table from a later one with the same name. */
  readonly inode: number;
  readonly modifiedMs: number;
}

const FILE = 'TABLES';
const TABLE_NAME = /^\d{6,}\.ldb$/;
const CHUNK_BYTES = 64 * 1024;
/** LevelDB's magic number at the end of every complete table. */
const TABLE_END = Buffer.from('57fb808b247547db', 'hex');

/**
 * Compares the table files of a database with the stored checksums, then deletes the file TABLES:
 * an open LevelDB may reuse a name. Throws a LedgerReadError at a difference. LevelDB itself does
 * not verify its checksums on reading: it would return damaged data or end the process.
 */
export async function checkTables(directory: string): Promise<TableChecksums> {
  const noted = await readNote(directory);
  const checked: Record<string, TableChecksum> = {};
  for (const name of await tableNames(directory)) {
    const expected = noted[name];
    if (expected === undefined) continue;
    const found = await readTable(join(directory, name));
    if (found?.size !== expected.size || found.crc !== expected.crc) {
      throw damage(join(directory, name), 'its checksum has changed');
    }
    checked[name] = found;
  }
  await rm(join(directory, FILE), { force: true });
  await syncDirectory(directory);
  return checked;
}

/** Stores the checksums of all complete tables; reads only tables that are not `known`. */
export async function noteTables(
  directory: string,
  known: TableChecksums,
): Promise<TableChecksums> {
  const noted: Record<string, TableChecksum> = {};
  for (const name of await tableNames(directory)) {
    const found = await readTable(join(directory, name), known[name]);
    if (found !== undefined) noted[name] = found;
  }
  const differs =
    Object.keys(noted).length !== Object.keys(known).length ||
    Object.entries(noted).some(([name, table]) => known[name] !== table);
  if (differs || !(await exists(join(directory, FILE)))) {
    const text = JSON.stringify(noted);
    await writeFileDurably(join(directory, FILE), `${crc32(text)}\n${text}\n`);
  }
  return noted;
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function tableNames(directory: string): Promise<readonly string[]> {
  return (await readdir(directory)).filter((name) => TABLE_NAME.test(name));
}

/** Reads the stored checksums; none if the file is missing or damaged. */
async function readNote(directory: string): Promise<TableChecksums> {
  const note = await readFile(join(directory, FILE), 'utf8').catch(() => '');
  const [sum, text = ''] = note.split('\n');
  return sum === String(crc32(text)) ? (JSON.parse(text) as TableChecksums) : {};
}

/** The checksum of a table; undefined while it is being written or if it was deleted. */
async function readTable(path: string, known?: TableChecksum): Promise<TableChecksum | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return undefined;
  const { size, ino: inode, mtimeMs: modifiedMs } = found;
  if (known?.inode === inode && known.modifiedMs === modifiedMs && known.size === size) {
    return known;
  }
  const crc = await readChecksum(path, size);
  return crc === undefined ? undefined : { size, crc, inode, modifiedMs };
}

/** Reads a file in chunks and returns its CRC; undefined if it is no complete table. */
async function readChecksum(path: string, size: number): Promise<number | undefined> {
  const handle = await open(path).catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    const buffer = Buffer.allocUnsafe(Math.min(size, CHUNK_BYTES));
    let crc = 0;
    let last = Buffer.alloc(0);
    for (let offset = 0; offset < size; ) {
      const { bytesRead } = await handle.read(
        buffer,
        0,
        Math.min(size - offset, CHUNK_BYTES),
        offset,
      );
      if (bytesRead === 0) return undefined;
      const chunk = buffer.subarray(0, bytesRead);
      crc = crc32(chunk, crc);
      last = Buffer.concat([last, chunk.subarray(-TABLE_END.length)]).subarray(-TABLE_END.length);
      offset += bytesRead;
    }
    return last.equals(TABLE_END) ? crc : undefined;
  } finally {
    await handle.close();
  }
}
