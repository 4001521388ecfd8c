import { rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { type RunnerTask, TestRunner } from 'vitest';
import {
  type Attempt,
  appendOutcomes,
  type Coverage,
  type Outcome,
  readCoverage,
  readOutcomes,
} from './outcomes.ts';

/** What the code of StrykerJS reads and writes to switch changes on, and to say which are reached. */
interface Switches {
  activeMutant?: string | undefined;
  currentTestId?: string | undefined;
  hitCount?: number;
  /** The change that is switched on throws once it is reached more often: it has made a loop endless. */
  hitLimit?: number | undefined;
  mutantCoverage?: Pick<Coverage, 'static' | 'perTest'>;
}

type Test = Extract<RunnerTask, { type: 'test' }>;
type TryOptions = Parameters<TestRunner['onBeforeTryTask']>[1];

const folder = process.env['MUTANTS_FOLDER'] ?? '';
/** In how many tests of a file a change is tried; undefined in the run without changes. */
const tries =
  process.env['MUTANTS_TRIES'] === undefined ? undefined : Number(process.env['MUTANTS_TRIES']);
const maxMs = Number(process.env['MUTANTS_MAX_MS']);
const switches: Switches = {};
Object.assign(globalThis, { __stryker__: switches });

const coverage = tries === undefined ? undefined : readCoverage(folder);
const before = tries === undefined ? [] : readOutcomes(folder);
const done = new Set(before.filter(({ outcome }) => outcome !== 'passed').map((one) => one.mutant));
const passed = new Set(before.map(({ mutant, test }) => `${mutant} ${test}`));
const triesOfFile = new Map<string, number>();
const took: Record<string, number> = {};

/**
 * Runs each test unchanged, then once more for each change that it reaches and no test has failed for, and at last
 * unchanged again: where that fails, a change has left something behind, and the test counts for nothing.
 * Repeats of Vitest do that, with the hooks before and after each test.
 */
export default class MutantRunner extends TestRunner {
  #mutants: readonly string[] = [];
  #outcomes: Outcome[] = [];

  override async onBeforeRunTask(task: RunnerTask): Promise<void> {
    await super.onBeforeRunTask(task);
    if (task.type !== 'test') return;
    this.#mutants = mutantsFor(task);
    this.#outcomes = [];
    task.repeats = this.#mutants.length === 0 ? 0 : this.#mutants.length + 1;
  }

  override onBeforeTryTask(task: RunnerTask, options: TryOptions): void {
    super.onBeforeTryTask(task, options);
    const test = nameOf(task);
    switches.currentTestId = test;
    const mutant = this.#mutants[options.repeats - 1];
    switches.activeMutant = mutant;
    switches.hitCount = 0;
    const hits = coverage?.perTest[test]?.[mutant ?? ''] ?? 0;
    switches.hitLimit = mutant === undefined ? undefined : 1000 + 100 * hits;
    // Each report of the test has all of them.
    if (task.result?.attempts !== undefined) task.result.attempts = [];
    if (mutant !== undefined) writeFileSync(currentFile(), JSON.stringify({ mutant, test }));
  }

  /** Without the differences that a failed assertion shows, which take longer than the test. */
  async runTask(test: Test): Promise<void> {
    try {
      await TestRunner.getTestFn(test)();
    } catch (error) {
      if (switches.activeMutant !== undefined && error instanceof Error) {
        Reflect.deleteProperty(error, 'actual');
        Reflect.deleteProperty(error, 'expected');
      }
      throw error;
    }
  }

  override async onAfterRetryTask(test: Test, options: TryOptions): Promise<void> {
    await super.onAfterRetryTask(test, options);
    const { result } = test;
    if (this.#mutants.length === 0 || result === undefined) return;
    const isLate = result.errors?.some(({ message }) => message.startsWith('Test timed out'));
    const failed = isLate === true ? 'timeout' : 'killed';
    this.#outcomes.push(result.state === 'fail' ? failed : 'passed');
    delete result.errors;
  }

  override onAfterRunTask(task: RunnerTask): void {
    delete switches.currentTestId;
    delete switches.activeMutant;
    rmSync(currentFile(), { force: true });
    if (task.type === 'test') this.#note(task);
    super.onAfterRunTask(task);
  }

  override onAfterRunFiles(files: Parameters<TestRunner['onAfterRunFiles']>[0]): void {
    super.onAfterRunFiles(files);
    if (coverage !== undefined) return;
    const { mutantCoverage = { static: {}, perTest: {} } } = switches;
    writeFileSync(join(folder, 'coverage.json'), JSON.stringify({ ...mutantCoverage, took }));
  }

  #note(task: Test): void {
    const test = nameOf(task);
    took[test] = task.result?.duration ?? 0;
    if (this.#mutants.length === 0 || task.result === undefined) return;
    const isSound = this.#outcomes.at(0) === 'passed' && this.#outcomes.at(-1) === 'passed';
    const outcomeOf = (index: number): Outcome =>
      isSound ? (this.#outcomes[index + 1] ?? 'passed') : 'passed';
    const attempts = this.#mutants.map((mutant, index): Attempt => {
      return { mutant, test, outcome: outcomeOf(index) };
    });
    for (const { mutant, outcome } of attempts) if (outcome !== 'passed') done.add(mutant);
    appendOutcomes(folder, attempts);
    task.result.state = isSound ? 'pass' : 'fail';
  }
}

/** The changes that are to be tried in a test. */
function mutantsFor(task: Test): readonly string[] {
  const test = nameOf(task);
  if (coverage === undefined || tries === undefined || (coverage.took[test] ?? 0) > maxMs)
    return [];
  return Object.keys(coverage.perTest[test] ?? {}).filter((mutant) => {
    if (done.has(mutant) || passed.has(`${mutant} ${test}`)) return false;
    const key = `${mutant} ${task.file.filepath}`;
    const count = triesOfFile.get(key) ?? 0;
    triesOfFile.set(key, count + 1);
    return count < tries;
  });
}

function nameOf(task: RunnerTask): string {
  const names = [task.name];
  for (let { suite } = task; suite !== undefined; { suite } = suite) names.unshift(suite.name);
  return [relative(process.cwd(), task.file.filepath), ...names].join(' > ');
}

/** What is tried now, for the process that watches this one. */
function currentFile(): string {
  return join(folder, 'current.json');
}
