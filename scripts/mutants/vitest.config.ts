import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { readCoverage } from './outcomes.ts';

/** For `npm run mutants`, which sets these variables. */
const folder = process.env['MUTANTS_FOLDER'] ?? '';
const isDryRun = process.env['MUTANTS_TRIES'] === undefined;

/** The code with all changes in it, by path. */
const sources = JSON.parse(readFileSync(join(folder, 'sources.json'), 'utf8')) as Readonly<
  Record<string, string>
>;

const tookOfFile = new Map<string, number>();
if (existsSync(join(folder, 'coverage.json'))) {
  for (const [test, ms] of Object.entries(readCoverage(folder).took)) {
    const [file = ''] = test.split(' > ');
    tookOfFile.set(file, (tookOfFile.get(file) ?? 0) + ms);
  }
}

class QuickFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const took = ({ moduleId }: TestSpecification): number =>
      tookOfFile.get(relative(process.cwd(), moduleId)) ?? 0;
    return Promise.resolve(files.toSorted((a, b) => took(a) - took(b)));
  }
}

export default defineConfig({
  plugins: [
    { name: 'mutants', enforce: 'pre', load: (id: string) => sources[id.split('?')[0] ?? ''] },
  ],
  test: {
    dir: '.',
    include: (process.env['MUTANTS_TESTS'] ?? '').split(','),
    exclude: ['**/node_modules/**', '**/*.apiserver.test.ts'],
    runner: './scripts/mutants/runner.ts',
    sequence: { sequencer: QuickFirst },
    testTimeout: isDryRun ? 60_000 : Number(process.env['MUTANTS_TIMEOUT']),
    // One process has all tests, and knows of all what is killed.
    isolate: false,
    maxWorkers: 1,
    fileParallelism: false,
    pool: 'forks',
    // What plugins load is not in its keys.
    fsModuleCache: false,
  },
});
