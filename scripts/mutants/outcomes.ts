import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What became of a change in one test; `timeout` where the test did not end in time. */
export type Outcome = 'killed' | 'timeout' | 'passed';

/** One attempt: a change, switched on during one test. */
export interface Attempt {
  readonly mutant: string;
  readonly test: string;
  readonly outcome: Outcome;
}

/** How often each change was reached: by test name, and at import. */
export interface Coverage {
  readonly static: Readonly<Record<string, number>>;
  readonly perTest: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** How long each test took unchanged, milliseconds. */
  readonly took: Readonly<Record<string, number>>;
}

const FILE = 'outcomes.jsonl';

/** Adds attempts to those in a folder. */
export function appendOutcomes(folder: string, attempts: readonly Attempt[]): void {
  const lines = attempts.map((attempt) => `${JSON.stringify(attempt)}\n`);
  appendFileSync(join(folder, FILE), lines.join(''));
}

/** The attempts in a folder; none where there is no file of them. */
export function readOutcomes(folder: string): readonly Attempt[] {
  const path = join(folder, FILE);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Attempt);
}

/** The coverage in a folder, as the run without changes has written it. */
export function readCoverage(folder: string): Coverage {
  return JSON.parse(readFileSync(join(folder, 'coverage.json'), 'utf8')) as Coverage;
}
