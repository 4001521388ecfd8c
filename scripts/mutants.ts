import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';

/**
 * `npm run mutants -- PATH…`: changes the code of files or folders in small ways, one at a time, and runs the tests
 * that cover the change. A change that no test fails for is printed with its place: write the test, or leave it where
 * the changed code means the same.
 *
 * - `--tests GLOB,…` names the tests; by default those in the folder of each path.
 * - `--jobs N` runs N test processes side by side.
 * - `--results FILE` keeps the outcome of each change in FILE. The next run with FILE tests only changes whose code or
 *   tests differ, and counts the others from FILE.
 *
 * Ends with one line of JSON: `killed`, `timeout`, `survived`, `uncovered`, `share` (killed of all, per cent). A change
 * that makes a loop endless is killed. `timeout` counts changes whose tests did not end in time, perhaps only because
 * the machine is busy: they count as not killed.
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    tests: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    results: { type: 'string' },
  },
});
if (positionals.length === 0) throw new Error('no path: npm run mutants -- operator/metering');
const isFile = (path: string): boolean => path.endsWith('.ts');
const sources = positionals.map((path) => (isFile(path) ? path : `${path}/**/*.ts`));
const tests = positionals.map(
  (path) => `${isFile(path) ? path.replace(/\/[^/]+$/, '') : path}/**/*.test.ts`,
);
process.env['MUTANT_TESTS'] = values.tests ?? tests.join(',');

const results = await new Stryker({
  mutate: [...sources, '!**/*.test.ts', '!**/testing/**', '!**/*.generated.ts'],
  testRunner: 'vitest',
  vitest: { configFile: 'vitest.mutants.config.ts', related: false },
  plugins: ['@stryker-mutator/vitest-runner'],
  // Stryker rewrites the tsconfig of its sandbox; the sources do not need that.
  tsconfigFile: 'none.json',
  concurrency: Number(values.jobs),
  timeoutMS: 10_000,
  timeoutFactor: 3,
  dryRunTimeoutMinutes: 15,
  incremental: values.results !== undefined,
  ...(values.results !== undefined && { incrementalFile: values.results }),
  reporters: ['clear-text', 'progress-append-only'],
  clearTextReporter: {
    allowColor: false,
    reportTests: false,
    reportScoreTable: true,
    logTests: false,
  },
  ignorePatterns: ['.cache', '.run', 'dist', 'e2e/long', 'docs/images'],
  tempDirName: `.run/mutants-${process.pid}`,
  allowEmpty: false,
}).runMutationTest();

type Result = (typeof results)[number];
const count = (isCounted: (result: Result) => boolean): number => results.filter(isCounted).length;
const isEndless = ({ status, statusReason }: Result): boolean =>
  status === 'Timeout' && statusReason?.startsWith('Hit limit reached') === true;
const killed = count((result) => result.status === 'Killed' || isEndless(result));
const timeout = count((result) => result.status === 'Timeout' && !isEndless(result));
const survived = count(({ status }) => status === 'Survived');
const uncovered = count(({ status }) => status === 'NoCoverage');
const share = Math.round((1000 * killed) / (killed + timeout + survived + uncovered)) / 10;
console.log(JSON.stringify({ killed, timeout, survived, uncovered, share }));
