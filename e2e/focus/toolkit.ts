import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { once } from 'node:events';
import { preparePython } from '../python/environment.ts';

/** The optional parts of FOCUS 1.4 that our files have, of those that the toolkit knows. */
const SUPPORTED = ['SupportsMultiplePricingCategories', 'SupportsUnitPricing'].flatMap((name) => [
  '--supports',
  name,
]);
/** A conversion has written Cost and Usage, and lacks facts for the other data sets. */
const INCOMPLETE = 3;

/** Runs `focus-toolkit`. Resolves to its exit code and all that it printed. */
async function toolkit(
  args: readonly string[],
): Promise<{ readonly code: unknown; readonly printed: string }> {
  const python = await preparePython(join(import.meta.dirname, 'toolkit-requirements.txt'));
  const child = spawn(join(python, 'bin/focus-toolkit'), args, {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [[code], ...printed] = await Promise.all([
    once(child, 'close'),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, printed: printed.join('') };
}

/** The faults of a file by the toolkit's model of FOCUS 1.4, each once, such as `unknown_column ProviderName`. */
export async function lint14(file: string): Promise<readonly string[]> {
  const { code, printed } = await toolkit([
    'validate',
    file,
    '--dataset',
    'cost-and-usage',
    ...SUPPORTED,
  ]);
  const faults = [...printed.matchAll(/\[\w+:(\w+)\] (\w+)(?: row \d+)?:/g)].map(
    ([, rule = '', column = '']) => `${rule} ${column}`,
  );
  const isClean = printed.includes('structural+semantic lint OK');
  if (isClean === (code === 0) && isClean === (faults.length === 0)) return [...new Set(faults)];
  throw new Error(`focus-toolkit: no report: ${printed.slice(-2000)}`);
}

/** Converts a file with the columns of 1.2 and 1.3 to 1.4, by the toolkit. Resolves to its CSV. */
export async function convertTo14(file: string, out: string): Promise<string> {
  const { code, printed } = await toolkit([
    'convert',
    '--cost-and-usage',
    file,
    '--source-version',
    '1.3',
    '--out',
    out,
    ...SUPPORTED,
  ]);
  if (code !== INCOMPLETE) throw new Error(`focus-toolkit: ${printed.slice(-2000)}`);
  return readFile(join(out, 'focus_1_4_cost_and_usage.csv'), 'utf8');
}

/** The data sets of 1.4 that a file has no facts for, with the columns that it lacks. */
export async function gapsTo14(file: string): Promise<Readonly<Record<string, readonly string[]>>> {
  const { printed } = await toolkit(['gaps', '--cost-and-usage', file, '--source-version', '1.3']);
  const sets = [...printed.matchAll(/^\[([^\]]+)\] (.*)\n((?: {2}- .*\n)*)/gm)];
  return Object.fromEntries(
    sets
      .filter(([, , state = '']) => !state.startsWith('strictly producible'))
      .map(([, name = '', , columns = '']) => [
        name,
        [...columns.matchAll(/^ {2}- (\w+)/gm)].map(([, column = '']) => column),
      ]),
  );
}
