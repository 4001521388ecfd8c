import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';

/**
 * `npm run mutants -- PATH…`: changes the code of files or folders in small ways, one at a time, and runs the tests
 * that cover the change. Prints each change that no test fails for, with its place: write the test, or leave it where
 * the changed code means the same.
 *
 * 1. Runs the tests in the folder of each path for all changes.
 * 2. With `--tests GLOB,…`: runs those tests for the changes that survived, or that no test in the folder covers.
 *
 * - `--jobs N` runs N test processes side by side.
 * - `--results FILE` stores the outcome of each change in FILE, and those of `--tests` in FILE.2. The next run with FILE
 *   tests only changes whose code or tests differ, and counts the others from FILE.
 *
 * Prints a line of JSON for each file, and one for all: `killed`, `timeout`, `survived`, `uncovered`, `share` (killed
 * of all, per cent). A change that makes a loop endless is killed. `timeout` counts changes whose tests did not end in
 * time, perhaps only because the machine is busy: they count as not killed.
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
const folderTests = positionals.map(
  (path) => `${isFile(path) ? path.replace(/\/[^/]+$/, '') : path}/**/*.test.ts`,
);

type Result = Awaited<ReturnType<typeof run>>[number];

/** The outcomes of all changes in `mutate`: files, globs, or places in files. */
function run(mutate: readonly string[], tests: string, resultsFile: string | undefined) {
  process.env['MUTANT_TESTS'] = tests;
  return new Stryker({
    mutate: [...mutate, '!**/*.test.ts', '!**/testing/**', '!**/*.generated.ts'],
    testRunner: 'vitest',
    vitest: { configFile: 'vitest.mutants.config.ts', related: false },
    plugins: ['@stryker-mutator/vitest-runner'],
    // Stryker rewrites the tsconfig of its sandbox; the sources do not need that.
    tsconfigFile: 'none.json',
    // Nearly all strings are texts for people, or names that the compiler checks.
    mutator: { excludedMutations: ['StringLiteral'] },
    concurrency: Number(values.jobs),
    timeoutMS: 12_000,
    timeoutFactor: 2,
    dryRunTimeoutMinutes: 15,
    incremental: resultsFile !== undefined,
    ...(resultsFile !== undefined && { incrementalFile: resultsFile }),
    reporters: ['progress-append-only'],
    ignorePatterns: ['.cache', '.run', 'dist', 'e2e/long', 'docs/images'],
    tempDirName: `.run/mutants-${process.pid}`,
    allowEmpty: false,
  }).runMutationTest();
}

const isOpen = ({ status }: Result): boolean => status === 'Survived' || status === 'NoCoverage';
const keyOf = ({ fileName, location, mutatorName, replacement }: Result): string =>
  JSON.stringify([fileName, location, mutatorName, replacement]);
/** As Stryker reads it: lines from 1, columns from 0. */
const placeOf = ({ fileName, location: { start, end } }: Result): string =>
  `${relative('.', fileName)}:${start.line}:${start.column - 1}-${end.line}:${end.column - 1}`;

let results = await run(sources, folderTests.join(','), values.results);
const places = new Set(results.filter(isOpen).map(placeOf));
if (values.tests !== undefined && places.size > 0) {
  const file = values.results === undefined ? undefined : `${values.results}.2`;
  const wider = await run([...places], values.tests, file);
  const outcomes = new Map(wider.map((result) => [keyOf(result), result]));
  results = results.map((result) =>
    isOpen(result) ? (outcomes.get(keyOf(result)) ?? result) : result,
  );
}

for (const result of results.filter(isOpen)) {
  console.log(result.status, placeOf(result), result.mutatorName, '→', result.replacement);
}
for (const [file, ofFile] of Map.groupBy(results, ({ fileName }) => relative('.', fileName))) {
  console.log(JSON.stringify({ file, ...summary(ofFile) }));
}
console.log(JSON.stringify(summary(results)));

function summary(of: readonly Result[]): Record<string, number> {
  const count = (isCounted: (result: Result) => boolean): number => of.filter(isCounted).length;
  const isEndless = ({ status, statusReason }: Result): boolean =>
    status === 'Timeout' && statusReason?.startsWith('Hit limit reached') === true;
  const isLate = ({ status, statusReason }: Result): boolean =>
    status === 'Timeout' ||
    (status === 'Killed' && /^(Test|Hook) timed out/.test(statusReason ?? ''));
  const timeout = count((result) => isLate(result) && !isEndless(result));
  const killed = count(({ status }) => status === 'Killed' || status === 'Timeout') - timeout;
  const survived = count(({ status }) => status === 'Survived');
  const uncovered = count(({ status }) => status === 'NoCoverage');
  const share = Math.round((1000 * killed) / (killed + timeout + survived + uncovered)) / 10;
  return { killed, timeout, survived, uncovered, share };
}
