import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createRandom, type Random } from '../random.ts';
import { durableChanges, isNameChange, type Names, namesAfter } from './names.ts';
import type { TraceFiles } from './shim.ts';
import { parseTrace, type TraceLine } from './trace.ts';

/** A directory as it was when a process started: all of that is on the disk. */
export interface Baseline {
  /** Path under which the process knows it. */
  readonly directory: string;
  /** A copy of what was in it. */
  readonly copy: string;
  readonly names: Names;
}

export function takeBaseline(directory: string, copy: string): Baseline {
  mkdirSync(directory, { recursive: true });
  rmSync(copy, { recursive: true, force: true });
  cpSync(directory, copy, { recursive: true });
  const files = new Map<string, string>();
  const directories = new Set<string>();
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const found = statSync(join(directory, path));
    if (found.isFile()) files.set(path, String(found.ino));
    else directories.add(path);
  }
  return { directory, copy, names: { files, directories } };
}

export interface PowerCut {
  readonly baseline: Baseline;
  /** The directory as the process saw it last. */
  readonly seen: string;
  /** What is left is written here. */
  readonly result: string;
  readonly trace: TraceFiles;
  /** Bytes of the trace that count. */
  readonly traced: number;
  readonly seed: number;
}

const SECTOR_BYTES = 512;

/**
 * What a power cut leaves on a file system with an ordered journal, such as ext4 or xfs: names are
 * created, renamed and deleted in the order in which the program did so, at least up to what it
 * synced; of a file there is at least what was synced, and by chance more.
 */
export function cutPower(cut: PowerCut): void {
  const { baseline, result } = cut;
  const random = createRandom(cut.seed);
  const text = readFileSync(cut.trace.file).toString('utf8', 0, cut.traced);
  const lines = parseTrace(text, baseline.directory);
  const changes = lines.filter(isNameChange);
  const survivors = random.between(durableChanges(lines), changes.length);
  const names = namesAfter(baseline.names, changes.slice(0, survivors));
  const seenNames = namesAfter(baseline.names, changes);
  const seenAt = new Map([...seenNames.files].map(([path, inode]) => [inode, path]));
  const startedAt = new Map([...baseline.names.files].map(([path, inode]) => [inode, path]));
  const synced = new Map<string, SyncedAs>();
  for (const line of lines) {
    if (line.kind === 'synced' || line.kind === 'synced-in-place') synced.set(line.inode, line);
  }

  const seenContent = (inode: string): Buffer => {
    const path = seenAt.get(inode);
    const seen = path === undefined ? undefined : contentOf(join(cut.seen, path));
    return seen ?? contentOf(join(cut.trace.directory, `${inode}.u`)) ?? Buffer.alloc(0);
  };
  const durableContent = (inode: string, seen: Buffer): Buffer => {
    const last = synced.get(inode);
    if (last?.kind === 'synced') return seen.subarray(0, last.size);
    if (last?.kind === 'synced-in-place') {
      return contentOf(join(cut.trace.directory, `${inode}.${last.number}`)) ?? EMPTY;
    }
    const path = startedAt.get(inode);
    return (path === undefined ? undefined : contentOf(join(baseline.copy, path))) ?? EMPTY;
  };

  rmSync(result, { recursive: true, force: true });
  mkdirSync(result, { recursive: true });
  for (const directory of names.directories) {
    mkdirSync(join(result, directory), { recursive: true });
  }
  for (const [path, inode] of names.files) {
    const seen = seenContent(inode);
    mkdirSync(dirname(join(result, path)), { recursive: true });
    writeFileSync(join(result, path), mix(durableContent(inode, seen), seen, random));
  }
}

const EMPTY = Buffer.alloc(0);

type SyncedAs = Extract<TraceLine, { readonly kind: 'synced' | 'synced-in-place' }>;

/** What is on the disk for certain, with a share of what was written after it. */
function mix(durable: Buffer, seen: Buffer, random: Random): Buffer {
  const grew = seen.length >= durable.length && seen.subarray(0, durable.length).equals(durable);
  if (!grew) return mixSectors(durable, seen, random);
  const rest = seen.subarray(durable.length);
  if (random.chance(0.5)) return durable;
  const written = rest.subarray(0, random.between(0, rest.length));
  // The length may be on the disk before the bytes are.
  const zeros = random.chance(0.3) ? rest.length - written.length : 0;
  return Buffer.concat([durable, written, Buffer.alloc(zeros)]);
}

function mixSectors(durable: Buffer, seen: Buffer, random: Random): Buffer {
  const result = Buffer.from(durable);
  for (let start = 0; start < result.length; start += SECTOR_BYTES) {
    if (random.chance(0.5)) seen.copy(result, start, start, start + SECTOR_BYTES);
  }
  return result;
}

function contentOf(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Forgets what a shim has kept, once nobody needs it any more. */
export function clearTrace(trace: TraceFiles): void {
  writeFileSync(trace.file, '');
  rmSync(trace.directory, { recursive: true, force: true });
  mkdirSync(trace.directory, { recursive: true });
}
