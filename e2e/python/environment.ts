import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const CACHE = resolve(import.meta.dirname, '../../.cache/python');
/** The release of Python whose programs the long tests run. */
export const PYTHON = '3.12';

/**
 * Installs the packages of a requirements file into the project's cache, unless they are there.
 * Resolves to the directory of that environment; its programs are in `bin/`.
 */
export async function preparePython(requirements: string): Promise<string> {
  const hash = createHash('sha256').update(await readFile(requirements));
  const directory = join(CACHE, hash.digest('hex').slice(0, 16));
  if (await exists(join(directory, 'complete'))) return directory;
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  await run(await findPython(), ['-m', 'venv', directory]);
  const pip = join(directory, 'bin/pip');
  await run(pip, ['install', '--quiet', '-r', requirements], { maxBuffer: 1e8 });
  await mkdir(join(directory, 'complete'));
  return directory;
}

/** Python by its own name, or one that pyenv has. */
async function findPython(): Promise<string> {
  const name = `python${PYTHON}`;
  const prefix = await run('pyenv', ['prefix', PYTHON]).then(
    ({ stdout }) => stdout.trim(),
    () => '',
  );
  for (const program of [name, join(prefix, 'bin', name)]) {
    const found = await run(program, ['--version']).catch(() => undefined);
    if (found?.stdout.startsWith(`Python ${PYTHON}.`) === true) return program;
  }
  throw new Error(`${name}: not found: install it, for example with pyenv`);
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
