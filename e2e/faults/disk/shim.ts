import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile, readFile, rename } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { type InitialFaults, initialControl } from '../subject/disk.ts';

/** What a shim writes. */
export interface TraceFiles {
  readonly file: string;
  /** Kept contents: of synced small files, and of files that were deleted. */
  readonly directory: string;
}

/** A shim for one process. */
export interface Shim {
  /** Everything of it; to be deleted after the process. */
  readonly directory: string;
  readonly control: string;
  readonly trace: TraceFiles;
  /** Of the process. */
  readonly environment: Readonly<Record<string, string>>;
}

let shims = 0;

/** Prepares a shim, in `scratch`, that makes the disk misbehave below `root`. Needs a C compiler. */
export async function prepareShim(
  scratch: string,
  root: string,
  faults: InitialFaults = {},
): Promise<Shim> {
  shims += 1;
  const directory = join(scratch, `shim-${process.pid}-${shims}`);
  const trace = { file: join(directory, 'trace'), directory: join(directory, 'kept') };
  const control = join(directory, 'control');
  await mkdir(trace.directory, { recursive: true });
  await writeFile(control, initialControl(faults));
  await writeFile(trace.file, '');
  const environment = {
    LD_PRELOAD: await buildShim(),
    FAULTS_ROOT: `${root}/`,
    FAULTS_CONTROL: control,
    FAULTS_TRACE: trace.file,
    FAULTS_KEPT: trace.directory,
  };
  return { directory, control, trace, environment };
}

const SOURCE = join(import.meta.dirname, 'shim.c');
const CACHE = resolve(import.meta.dirname, '../../../.cache/faults');

let built: Promise<string> | undefined;

/** The library to preload into a process whose disk is to misbehave; compiled when its source is new. */
export function buildShim(): Promise<string> {
  built ??= build();
  return built;
}

async function build(): Promise<string> {
  const source = await readFile(SOURCE);
  const hash = createHash('sha256').update(source).digest('hex').slice(0, 16);
  const library = join(CACHE, `shim-${hash}.so`);
  if (existsSync(library)) return library;
  await mkdir(CACHE, { recursive: true });
  const draft = `${library}.${process.pid}`;
  const args = ['-O1', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-o', draft, SOURCE];
  await promisify(execFile)('cc', [...args, '-ldl']).catch((error: unknown) => {
    const how = 'install a C compiler (Debian: gcc libc6-dev)';
    throw new Error(`faults: cc: cannot compile ${SOURCE}: ${how}`, { cause: error });
  });
  await rename(draft, library);
  return library;
}
