import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type InitialFaults, initialControl } from '../subject/disk.ts';
import { buildShim } from './build-shim.ts';

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
