import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Runs property tests last: a change that an example fails for is known without them. */
class ExamplesFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isProperty = ({ moduleId }: TestSpecification): number =>
      Number(/propert(y|ies)/u.test(moduleId));
    return Promise.resolve(files.toSorted((a, b) => isProperty(a) - isProperty(b)));
  }
}

/**
 * For `npm run mutants`: the tests that need no API server, in the folders of arithmetic and delivery. Crash tests stay
 * out: they stop a process at each await, and take up to 20 s each.
 */
export default defineConfig({
  test: {
    include: (process.env['MUTANT_TESTS'] ?? 'operator/**/*.test.ts').split(','),
    exclude: ['**/node_modules/**', '**/*.apiserver.test.ts', '**/*crash.test.ts'],
    setupFiles: ['scripts/mutants-setup.ts'],
    testTimeout: 30_000,
    isolate: false,
    sequence: { sequencer: ExamplesFirst },
  },
});
