import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { type BilledRun, BILLED_RUN_ENV, startBilledRun } from './billed-run.ts';

/** The operator dies again and again while the cluster goes on: a watch that resumes misses nothing. */
describe('an operator that is killed while the cluster lives on', () => {
  const cluster = useOwnTestCluster();
  let run: BilledRun;
  let operator: RunningOperator;

  const startUp = async (): Promise<void> => {
    operator = await startOperator({
      files: run.files,
      kubeconfig: cluster.kubeconfigPath,
      env: BILLED_RUN_ENV,
      signal: AbortSignal.timeout(60_000),
    });
  };

  beforeAll(async () => {
    run = await startBilledRun(cluster, 'operator-restart');
    await startUp();
  }, 120_000);
  afterAll(async () => {
    await operator?.stop();
    await run?.stop();
  });

  test('bills every pod exactly and every window once', async () => {
    await run.windowsPass(2);
    for (const awayMs of [0, 4_000, 25_000]) {
      signalProcess(operator.pid, 'SIGKILL');
      expect(await operator.exited).toBe('signal SIGKILL');
      await delay(awayMs);
      await startUp();
      await run.windowsPass(2);
    }
    await run.expectBilledExactly();
  });
});
