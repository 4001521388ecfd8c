import { spawn } from 'node:child_process';
import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Instrumenter, type InstrumentResult } from '@stryker-mutator/instrumenter';
import { type Attempt, appendOutcomes, readCoverage, readOutcomes } from './mutants/outcomes.ts';

/**
 * `npm run mutants -- PATH…`: changes the code of files or folders in small ways, one at a time, and runs the tests
 * that cover the change. A change that no test fails for is printed with its place: write the test, or leave it where
 * the changed code means the same.
 *
 * The changes are those of StrykerJS. All of them are in the code at once, and a test process switches them on one
 * after the other, which is many times quicker than a process for each (`scripts/mutants/runner.ts`).
 *
 * - `--tests GLOB,…` names the tests; by default those in the folder of each path. Tests of an API server are left out.
 * - `--max-ms N` leaves out tests that take longer than N ms unchanged, such as property tests; 1000 by default.
 * - `--timeout N` is the time in ms that a test may take with a change; 10000 by default.
 * - `--folder PATH` is where sources, coverage and outcomes are; `.run/mutants` by default.
 * - `--continue` goes on with the outcomes in the folder, for instance with more tests.
 *
 * Ends with a line of JSON for each file and one for all: `killed`, `timeout`, `survived`, `uncovered`, `static`, and
 * `share`, killed of all in per cent. A change that makes a loop endless is killed. `timeout` counts changes whose
 * tests did not end in time, perhaps only because the machine is busy: they count as not killed. `static` are changes of
 * what is evaluated at import only: they are not tried, and count as not killed.
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    tests: { type: 'string' },
    'max-ms': { type: 'string', default: '1000' },
    timeout: { type: 'string', default: '10000' },
    folder: { type: 'string', default: '.run/mutants' },
    continue: { type: 'boolean', default: false },
  },
});
if (positionals.length === 0) throw new Error('no path: npm run mutants -- operator/metering');

/** How long one change may hang in a test that cannot be cut, since it never waits. */
const HANGS_MS = 60_000;
/** In so many tests of each file a change is tried, in one run after the other: most fail in the first. */
const TRIES = [1, 4, Number.POSITIVE_INFINITY];

const isFile = (path: string): boolean => path.endsWith('.ts');
const tests = positionals.map(
  (path) => `${isFile(path) ? path.replace(/\/[^/]+$/u, '') : path}/**/*.test.ts`,
);
const folder = resolve(values.folder);
if (!values.continue) rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const { files, mutants } = await instrument(positionals.flatMap(sourcesOf).toSorted());
const sources = files.map(({ name, content }) => [name, content] as const);
writeFileSync(join(folder, 'sources.json'), JSON.stringify(Object.fromEntries(sources)));
if ((await runTests()) !== 'passed') throw new Error('tests fail without any change');
for (const tries of TRIES) while ((await runTests(tries)) === 'hung');
report();

function sourcesOf(path: string): readonly string[] {
  const found = isFile(path) ? [path] : globSync(`${path}/**/*.ts`);
  return found.filter((file) => !/\.test\.ts$|\.generated\.ts$|\/testing\//u.test(file));
}

/** The code with every change in it, each behind a switch. */
async function instrument(paths: readonly string[]): Promise<InstrumentResult> {
  const silent = () => undefined;
  const off = () => false;
  const logger = {
    isTraceEnabled: off,
    isDebugEnabled: off,
    isInfoEnabled: off,
    isWarnEnabled: off,
    isErrorEnabled: off,
    isFatalEnabled: off,
    trace: silent,
    debug: silent,
    info: silent,
    warn: silent,
    error: silent,
    fatal: silent,
  };
  const given = paths.map((path) => ({
    name: resolve(path),
    content: readFileSync(path, 'utf8'),
    mutate: true,
  }));
  const options = { plugins: null, excludedMutations: [], ignorers: [] };
  return await new Instrumenter(logger).instrument(given, options);
}

/** Runs the tests, unchanged where no number of tries is given. */
async function runTests(tries?: number): Promise<'passed' | 'failed' | 'hung'> {
  const config = 'scripts/mutants/vitest.config.ts';
  const child = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', '-c', config], {
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
    env: {
      ...process.env,
      MUTANTS_FOLDER: folder,
      MUTANTS_TESTS: values.tests ?? tests.join(','),
      MUTANTS_TIMEOUT: values.timeout,
      MUTANTS_MAX_MS: values['max-ms'],
      ...(tries !== undefined && { MUTANTS_TRIES: String(tries) }),
    },
  });
  let outcome: 'failed' | 'hung' = 'failed';
  const watch = setInterval(() => {
    const hung = hungAttempt();
    if (hung === undefined || child.pid === undefined) return;
    appendOutcomes(folder, [hung]);
    outcome = 'hung';
    process.kill(-child.pid, 'SIGKILL');
  }, 5_000);
  const code = await new Promise((ended) => child.once('exit', ended));
  clearInterval(watch);
  return code === 0 ? 'passed' : outcome;
}

/** The attempt that has not ended for too long; undefined where all goes on. */
function hungAttempt(): Attempt | undefined {
  const current = join(folder, 'current.json');
  if (!existsSync(current) || Date.now() - statSync(current).mtimeMs < HANGS_MS) return undefined;
  const attempt = JSON.parse(readFileSync(current, 'utf8')) as Omit<Attempt, 'outcome'>;
  rmSync(current);
  return { ...attempt, outcome: 'timeout' };
}

function report(): void {
  const coverage = readCoverage(folder);
  const covered = new Set(Object.values(coverage.perTest).flatMap((hits) => Object.keys(hits)));
  const ended = new Map(
    readOutcomes(folder).flatMap(({ mutant, outcome }) =>
      outcome === 'passed' ? [] : [[mutant, outcome] as const],
    ),
  );
  const isStatic = (id: string): boolean => coverage.static[id] !== undefined;
  const statusOf = (id: string): string =>
    ended.get(id) ?? (covered.has(id) ? 'survived' : isStatic(id) ? 'static' : 'uncovered');
  const statuses: (readonly [file: string, status: string])[] = [];
  for (const { id, fileName, location, mutatorName, replacement } of mutants) {
    const [file, status] = [relative(process.cwd(), fileName), statusOf(id)];
    statuses.push([file, status]);
    if (status === 'killed') continue;
    const { line, column } = location.start;
    console.log(`${file}:${line + 1}:${column + 1} ${status} ${mutatorName} → ${replacement}`);
  }
  const sumOf = (name: string, own: typeof statuses): void => {
    const count = (status: string): number => own.filter(([, one]) => one === status).length;
    const killed = count('killed');
    const [timeout, survived] = [count('timeout'), count('survived')];
    const counts = { killed, timeout, survived, uncovered: count('uncovered') };
    const share = Math.round((1000 * killed) / own.length) / 10;
    console.log(JSON.stringify({ name, ...counts, static: count('static'), share }));
  };
  for (const [file, own] of Map.groupBy(statuses, ([name]) => name)) sumOf(file, own);
  sumOf('all', statuses);
}
