import { defineConfig } from 'vitest/config';

/** Tests sit beside their sources; those that need an API server ask for the shared one: `useTestCluster()`. */
export default defineConfig({
  test: {
    include: [
      'operator/**/*.test.ts',
      'e2e/**/*.test.ts',
      'scripts/**/*.test.ts',
      'config/**/*.test.ts',
      'crds/**/*.test.ts',
      'charts/**/*.test.ts',
      'plugin/**/*.test.ts',
    ],
    exclude: ['**/node_modules/**', 'e2e/long/**'],
    globalSetup: ['e2e/control-plane/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
