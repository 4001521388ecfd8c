import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Tests that wait for windows and Leases of a real API server, or for a browser: minutes each, most of them idle. */
const LONG = /\.apiserver\.test\.ts$|^e2e\/hostile\/|\/dashboard\/|^operator\/app\/hub\//;

/** Long tests begin first, so that none of them is left alone at the end. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId, project }: TestSpecification): boolean =>
      LONG.test(moduleId.slice(project.config.root.length + 1));
    return [...files.filter(isLong), ...files.filter((file) => !isLong(file))];
  }
}

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
    // Two processors suffice, because long tests wait most of the time.
    maxWorkers: 4,
    sequence: { sequencer: LongFirst },
    // Several times what a slow machine needs: they only end what hangs.
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
