import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { preparePython, PYTHON } from '../python/environment.ts';

const run = promisify(execFile);

const REQUIREMENTS = join(import.meta.dirname, 'requirements.txt');

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
  const python = await preparePython(REQUIREMENTS);
  const { stdout } = await run(
    join(python, 'bin/python'),
    [
      join(python, 'bin/focus-validator'),
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
    { cwd: join(python, `lib/python${PYTHON}/site-packages`), maxBuffer: 1e8 },
  );
  const [, passed, , skipped] =
    /Total: \d+ \| Pass: (\d+) \| Fail: (\d+) \| Skipped: (\d+)/.exec(stdout) ?? [];
  if (passed === undefined) throw new Error(`focus-validator: no report: ${stdout.slice(-2000)}`);
  const failed = [...stdout.matchAll(/❌ ([A-Za-z0-9-]+):/g)].map(([, rule = '']) => rule);
  return { passed: Number(passed), failed: [...new Set(failed)], skipped: Number(skipped) };
}

/** Runs a query of DuckDB, in a directory. Resolves to its rows, numbers as text. */
export async function duckdb(
  query: string,
  directory: string,
): Promise<readonly (readonly string[])[]> {
  const program = `
import decimal, duckdb, json, sys
text = lambda cell: f"{cell:f}" if isinstance(cell, decimal.Decimal) else str(cell)
print(json.dumps([[text(cell) for cell in row] for row in duckdb.sql(sys.argv[1]).fetchall()]))`;
  const python = join(await preparePython(REQUIREMENTS), 'bin/python');
  const { stdout } = await run(python, ['-c', program, query], { cwd: directory });
  return JSON.parse(stdout) as string[][];
}
