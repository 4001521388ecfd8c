import { defineConfig } from 'vitest/config';

/** The suites that take minutes: `make e2e`. One at a time, since each runs a whole local cluster. */
export default defineConfig({
  test: {
    include: ['e2e/long/**/*.test.ts'],
    globalSetup: ['e2e/control-plane/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 900_000,
  },
});
