import { defineConfig } from 'vitest/config';

/** For `npm run mutants`: the tests that need no API server, in the folders of arithmetic and delivery. */
export default defineConfig({
  test: {
    include: (process.env['MUTANT_TESTS'] ?? 'operator/**/*.test.ts').split(','),
    exclude: ['**/node_modules/**', '**/*.apiserver.test.ts'],
    testTimeout: 30_000,
    isolate: false,
  },
});
