import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { applyCustomResources } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { type Receiver, startReceiver } from '../receiver/receiver.ts';
import { type Simulator, startSimulator } from '../simulator/simulator.ts';
import { readTruth } from '../simulator/truth.ts';
import { measuredFrom, wronglyBilled } from './billed-seconds.ts';
import { missingWindows, readReceived, repeatedIds } from './received.ts';

const WINDOW_MS = 10_000;

/** The operator dies again and again while the cluster goes on: a watch that resumes misses nothing. */
describe('an operator that is killed while the cluster lives on', () => {
  const cluster = useOwnTestCluster();
  let files: RunFiles;
  let receiver: Receiver;
  let simulator: Simulator;
  let operator: RunningOperator;
  const secret = 'restart-secret';

  const startUp = async (): Promise<void> => {
    operator = await startOperator({
      files,
      kubeconfig: cluster.kubeconfigPath,
      env: {
        CLUSTER_NAME: 'local',
        REGION: 'local',
        PLATFORM_CLUSTER: 'local',
        COLLECTION_INTERVAL: '10s',
      },
      signal: AbortSignal.timeout(60_000),
    });
  };

  const lastWindow = (): number =>
    Math.max(0, ...readReceived(files.received).map(({ window_end }) => Date.parse(window_end)));

  const windowsPass = async (count: number): Promise<void> => {
    const until = Date.now() + count * WINDOW_MS;
    await vi.waitFor(() => expect(lastWindow()).toBeGreaterThanOrEqual(until), {
      timeout: (count + 4) * WINDOW_MS,
      interval: 500,
    });
  };

  beforeAll(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'operator-restart-')));
    writeFileSync(files.operatorPort, '0\n');
    receiver = await startReceiver({ file: files.received, secret, port: 0 });
    await applyCustomResources(cluster.kubectl, { url: receiver.url, secret });
    simulator = await startSimulator({
      credentials: cluster.credentials,
      truthFile: files.truth,
      log: (line) => console.error(line),
    });
    await startUp();
  }, 120_000);
  afterAll(async () => {
    await operator?.stop();
    await simulator?.stop();
    await receiver?.stop();
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(files.directory, { recursive: true, force: true });
    }
  });

  test('bills every pod exactly and every window once', async () => {
    await windowsPass(2);
    for (const awayMs of [0, 4_000, 25_000]) {
      signalProcess(operator.pid, 'SIGKILL');
      expect(await operator.exited).toBe('signal SIGKILL');
      await delay(awayMs);
      await startUp();
      await windowsPass(2);
    }
    const ended = readTruth(files.truth);
    await windowsPass(3);
    const events = readReceived(files.received);
    expect(repeatedIds(events)).toEqual([]);
    expect(missingWindows(events, WINDOW_MS)).toEqual([]);
    expect(receiver.stats()).toMatchObject({ conflicts: 0, refused: 0 });
    const pods = ended.filter(
      ({ namespace, startedAt }) =>
        namespace === 'tenant-burst' && Date.parse(startedAt) >= measuredFrom(events),
    );
    expect(pods.length).toBeGreaterThan(30);
    expect(wronglyBilled(pods, events).exact).toEqual([]);
  });
});
