import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

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
