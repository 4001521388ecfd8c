import { dirname } from 'node:path';
import type { NameChange, TraceLine } from './trace.ts';

/** Which names there are in a directory tree, and which file each stands for. */
export interface Names {
  /** Path → inode. */
  readonly files: ReadonlyMap<string, string>;
  readonly directories: ReadonlySet<string>;
}

export function isNameChange(line: TraceLine): line is NameChange {
  return !line.kind.includes('synced');
}

/** The names after some changes. */
export function namesAfter(start: Names, changes: readonly NameChange[]): Names {
  const files = new Map(start.files);
  const directories = new Set(start.directories);
  for (const change of changes) {
    switch (change.kind) {
      case 'created':
        files.set(change.path, change.inode);
        break;
      case 'deleted':
        files.delete(change.path);
        break;
      case 'made':
        directories.add(change.path);
        break;
      case 'removed':
        directories.delete(change.path);
        break;
      case 'renamed':
        rename(files, directories, change);
        break;
    }
  }
  return { files, directories };
}

function rename(
  files: Map<string, string>,
  directories: Set<string>,
  { from, to }: { readonly from: string; readonly to: string },
): void {
  const moved = (path: string): string | undefined =>
    path === from || path.startsWith(`${from}/`) ? to + path.slice(from.length) : undefined;
  for (const [path, inode] of files) {
    const target = moved(path);
    if (target === undefined) continue;
    files.delete(path);
    files.set(target, inode);
  }
  for (const path of directories) {
    const target = moved(path);
    if (target === undefined) continue;
    directories.delete(path);
    directories.add(target);
  }
}

/**
 * How many of the name changes are on the disk for certain. Syncing a file that has grown takes along
 * whatever the journal has by then; syncing one that has not, only what was done to its own name, and
 * syncing a directory the last change within it, each with everything before it.
 */
export function durableChanges(lines: readonly TraceLine[]): number {
  const changes: NameChange[] = [];
  let durable = 0;
  for (const line of lines) {
    if (isNameChange(line)) changes.push(line);
    else durable = Math.max(durable, changes.findLastIndex(takenAlongBy(line)) + 1);
  }
  return durable;
}

function takenAlongBy(line: Exclude<TraceLine, NameChange>): (change: NameChange) => boolean {
  if (line.kind === 'directory-synced') return (change) => placesOf(change).includes(line.path);
  if (line.kind === 'synced') return () => true;
  return (change) => 'inode' in change && change.inode === line.inode;
}

function placesOf(change: NameChange): string[] {
  const paths = change.kind === 'renamed' ? [change.from, change.to] : [change.path];
  return paths.map((path) => (path.includes('/') ? dirname(path) : ''));
}
