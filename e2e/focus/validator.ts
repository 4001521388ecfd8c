import { execFile } from 'node:child_process';
import { access, mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const CACHE = resolve(import.meta.dirname, '../../.cache/focus-validator');
/** Newer releases of the two libraries do not fit to each other. */
const PACKAGES = ['focus-validator==2.2.1', 'numpy<2', 'pyarrow<24'];
const PYTHON = '3.12';

/** The optional parts of FOCUS that our files have. */
const CRITERIA = [
  'ACCOUNT_NAMING',
  'AVAILABILITY_ZONE',
  'MULTIPLE_PRICING_CATEGORIES',
  'NEGOTIATED_PRICING',
  'USAGE_MEASUREMENT',
  'UNIT_PRICING',
  'SUB_ACCOUNT',
  'BILLING_BASED_ON_PROVISIONED_RESOURCES',
  'RESOURCE_TYPE_ASSIGNMENT',
  'REGION',
  'TAGGING',
  'MULTIPLE_SUB_ACCOUNT_TYPES',
  'MULTIPLE_BILLING_ACCOUNT_TYPES',
].map((name) => `${name}_SUPPORTED`);

/** The report of the public validator on a file. */
export interface Validation {
  readonly passed: number;
  readonly failed: readonly string[];
  readonly skipped: number;
}

/** Runs the validator of the FinOps Foundation, by FOCUS 1.2. Its exit code says nothing, its report does. */
export async function validate(file: string): Promise<Validation> {
  const { stdout } = await run(
    join(await prepareValidator(), 'bin/focus-validator'),
    [
      '--block-download',
      '--validate-version',
      '1.2',
      '--data-file',
      resolve(file),
      '--show-violations',
      '--applicability-criteria',
      CRITERIA.join(','),
    ],
    // It opens its list of currencies by a relative path.
    { cwd: join(CACHE, `lib/python${PYTHON}/site-packages`), maxBuffer: 1e8 },
  );
  const [, passed, , skipped] =
    /Total: \d+ \| Pass: (\d+) \| Fail: (\d+) \| Skipped: (\d+)/.exec(stdout) ?? [];
  if (passed === undefined) throw new Error(`focus-validator: no report: ${stdout.slice(-2000)}`);
  const failed = [...stdout.matchAll(/❌ ([A-Za-z0-9-]+):/g)].map(([, rule = '']) => rule);
  return { passed: Number(passed), failed: [...new Set(failed)], skipped: Number(skipped) };
}

/** Installs the validator into the project's cache. Resolves to its directory. */
async function prepareValidator(): Promise<string> {
  if (await exists(join(CACHE, 'complete'))) return CACHE;
  await rm(CACHE, { recursive: true, force: true });
  await mkdir(CACHE, { recursive: true });
  await run(await findPython(), ['-m', 'venv', CACHE]);
  await run(join(CACHE, 'bin/pip'), ['install', '--quiet', ...PACKAGES], { maxBuffer: 1e8 });
  await mkdir(join(CACHE, 'complete'));
  return CACHE;
}

/** Python 3.12 by its own name, or one that pyenv has. */
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
