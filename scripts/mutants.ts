import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';

/**
 * `npm run mutants -- PATH…`: changes the code of files or folders in small ways, one at a time, and runs the tests
 * that cover the change. A change that no test fails for is printed with its place: write the test, or leave it where
 * the changed code means the same. `--tests GLOB,…` names the tests; by default those in the folder of each path.
 * `--jobs N` runs N test processes side by side. Ends with one line of JSON: `killed`, `survived`, `uncovered`,
 * `share` (killed of all, per cent).
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    tests: { type: 'string' },
    jobs: { type: 'string', default: '2' },
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
  vitest: { configFile: 'vitest.mutants.config.ts' },
  plugins: ['@stryker-mutator/vitest-runner'],
  // Stryker rewrites the tsconfig of its sandbox, which the sources do not need.
  tsconfigFile: 'none.json',
  concurrency: Number(values.jobs),
  reporters: ['clear-text', 'progress-append-only'],
  clearTextReporter: {
    allowColor: false,
    reportTests: false,
    reportScoreTable: true,
    logTests: false,
  },
  ignorePatterns: ['.cache', '.run', 'dist', 'e2e/long', 'docs/images'],
  tempDirName: '.run/mutants',
  allowEmpty: false,
}).runMutationTest();

const count = (...statuses: readonly string[]): number =>
  results.filter(({ status }) => statuses.includes(status)).length;
const killed = count('Killed', 'Timeout');
const survived = count('Survived');
const uncovered = count('NoCoverage');
const share = Math.round((1000 * killed) / (killed + survived + uncovered)) / 10;
console.log(JSON.stringify({ killed, survived, uncovered, share }));
