import { readSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock } from '../../telemetry/clock.ts';
import type { ManifestNote } from './database.ts';
import { damage } from '../failures.ts';
import { isMissing, writeFileDurably } from './files.ts';

/** The newest position of the ledger, stored outside the database to detect a loss in it. */
export interface Head {
  /** Grows by one with every start; a process that finds a higher one has been replaced. */
  readonly epoch: number;
  readonly batch: number;
  readonly sequence: number;
  readonly chain: string;
  /** Name of the active segment's directory. */
  readonly segment: string;
  /** Absent until the active segment's files were checked. */
  readonly manifest?: ManifestNote;
}

export interface HeadFile {
  /** The head as read at opening, or as noted since. */
  current(): Head;
  /** Notes a new head. Writes the newest one soon; syncs at most once a second. */
  note(head: Head): void;
  /** Notes a new head and waits until it is on the disk. */
  noteDurably(head: Head): Promise<void>;
  /** True unless another process has raised the epoch. Throws if the file cannot be read. */
  owned(): boolean;
  /** Writes a pending head, syncs and closes. */
  close(): Promise<void>;
}

const FILE = 'HEAD';
const SLOT_BYTES = 512;
const CHECKSUM_CHARACTERS = 8;
const SYNC_INTERVAL_MS = 1_000;

interface Slot {
  /** Counts up. The higher of two valid slots is newer; the next write goes to the other slot. */
  readonly slot: number;
  readonly head: Head;
}

/** Creates the file of a new ledger. */
export async function createHeadFile(directory: string, head: Head): Promise<void> {
  await writeFileDurably(
    join(directory, FILE),
    Buffer.concat([encodeSlot({ slot: 0, head }), encodeSlot({ slot: 1, head })]),
  );
}

/** Reads HEAD, without opening for writing. Throws LedgerReadError if missing or damaged. */
export async function readHead(directory: string): Promise<Head> {
  const handle = await openFile(directory, 'r');
  try {
    return newestSlot(await readSlots(handle), directory).head;
  } finally {
    await handle.close();
  }
}

/** Opens the HEAD of an existing ledger. Throws a LedgerReadError if it is missing or damaged. */
export async function openHeadFile(
  directory: string,
  clock: Clock,
  onError: (error: unknown) => void,
): Promise<HeadFile> {
  const handle = await openFile(directory, 'r+');
  let slot: Slot;
  let known: Buffer;
  try {
    known = await readSlots(handle);
    slot = newestSlot(known, directory);
  } catch (error) {
    await handle.close();
    throw error;
  }
  const found = Buffer.alloc(2 * SLOT_BYTES);
  let syncedAt = clock.monotonic();
  let waiting: Head | undefined;
  let writing: Promise<void> | undefined;

  const write = async (head: Head): Promise<void> => {
    slot = { slot: slot.slot + 1, head };
    const bytes = encodeSlot(slot);
    const start = (slot.slot % 2) * SLOT_BYTES;
    await handle.write(bytes, 0, SLOT_BYTES, start);
    bytes.copy(known, start);
  };
  const drain = async (): Promise<void> => {
    for (let head = waiting; head !== undefined; head = waiting) {
      waiting = undefined;
      try {
        await write(head);
        if (clock.monotonic() - syncedAt < SYNC_INTERVAL_MS) continue;
        await handle.datasync();
        syncedAt = clock.monotonic();
      } catch (error) {
        onError(error);
      }
    }
    writing = undefined;
  };

  return {
    current: () => waiting ?? slot.head,
    note(head) {
      waiting = head;
      writing ??= drain();
    },
    async noteDurably(head) {
      waiting = undefined;
      await writing;
      await write(head);
      await handle.datasync();
      syncedAt = clock.monotonic();
    },
    owned() {
      // Called before every batch. The file was just written, so the read comes from memory.
      const length = readSync(handle.fd, found, 0, found.length, 0);
      const content = found.subarray(0, length);
      // The content is what this process wrote.
      if (content.equals(known)) return true;
      return newestSlot(content, directory).head.epoch <= slot.head.epoch;
    },
    async close() {
      await writing;
      // A failed sync is harmless here, and the file must be closed.
      await handle.datasync().catch(onError);
      await handle.close();
    },
  };
}

async function openFile(directory: string, flags: 'r' | 'r+'): Promise<FileHandle> {
  return open(join(directory, FILE), flags).catch((error: unknown) => {
    throw isMissing(error) ? damage(join(directory, FILE), 'missing') : error;
  });
}

async function readSlots(handle: FileHandle): Promise<Buffer> {
  const content = Buffer.alloc(2 * SLOT_BYTES);
  const { bytesRead } = await handle.read(content, 0, content.length, 0);
  return content.subarray(0, bytesRead);
}

function newestSlot(content: Buffer, directory: string): Slot {
  const slots = [0, SLOT_BYTES]
    .filter((start) => start + SLOT_BYTES <= content.length)
    .map((start) => decodeSlot(content.toString('utf8', start, start + SLOT_BYTES)))
    .filter((slot) => slot !== undefined)
    // A replaced process that does not know it yet may have written the higher slot.
    .toSorted((a, b) => b.head.epoch - a.head.epoch || b.slot - a.slot);
  const newest = slots[0];
  if (newest === undefined) throw damage(join(directory, FILE), 'no readable slot');
  return newest;
}

function encodeSlot(slot: Slot): Buffer {
  const text = JSON.stringify(slot).padEnd(SLOT_BYTES - CHECKSUM_CHARACTERS - 1);
  if (text.length !== SLOT_BYTES - CHECKSUM_CHARACTERS - 1) {
    throw new RangeError(`HEAD: longer than a slot: "${text}"`);
  }
  return Buffer.from(`${checksum(text)}${text}\n`);
}

function decodeSlot(content: string): Slot | undefined {
  const text = content.slice(CHECKSUM_CHARACTERS, -1);
  if (!content.endsWith('\n') || content.slice(0, CHECKSUM_CHARACTERS) !== checksum(text)) {
    return undefined;
  }
  return JSON.parse(text) as Slot;
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(CHECKSUM_CHARACTERS, '0');
}
