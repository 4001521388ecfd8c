import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { applyCustomResources } from '../local/custom-resources.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { startReceiver } from '../receiver/receiver.ts';
import { startSimulator } from '../simulator/simulator.ts';
import { readTruth } from '../simulator/truth.ts';
import { measuredFrom, wronglyBilled } from './billed-seconds.ts';
import { missingWindows, type ReceivedEvent, readReceived, repeatedIds } from './received.ts';

const WINDOW_MS = 10_000;

/** What every operator of a {@link BilledRun} is told. */
export const BILLED_RUN_ENV = {
  CLUSTER_NAME: 'local',
  REGION: 'local',
  PLATFORM_CLUSTER: 'local',
  COLLECTION_INTERVAL: `${WINDOW_MS / 1_000}s`,
} as const;

/** A simulated cluster, and a receiver of what operators bill for it, whatever is done to them meanwhile. */
export interface BilledRun {
  readonly files: RunFiles;
  readonly windowMs: number;
  received(): readonly ReceivedEvent[];
  /** End of the newest window that was received, milliseconds since the epoch; 0 before the first. */
  lastWindow(): number;
  /** Waits until a window is received that ends so many windows from now. */
  windowsPass(count: number): Promise<void>;
  /** Expects of all that has ended by now that each pod is billed exactly, and of all windows that each is there once. */
  expectBilledExactly(): Promise<void>;
  stop(): Promise<void>;
}

/** `name` begins the name of its directory. */
export async function startBilledRun(cluster: TestCluster, name: string): Promise<BilledRun> {
  const files = runFiles(await mkdtemp(join(tmpdir(), `${name}-`)));
  const secret = `${name}-secret`;
  const receiver = await startReceiver({ file: files.received, secret, port: 0 });
  await applyCustomResources(cluster.kubectl, { url: receiver.url, secret });
  const simulator = await startSimulator({
    credentials: cluster.credentials,
    truthFile: files.truth,
    log: (line) => console.error(line),
  });
  const received = (): readonly ReceivedEvent[] => readReceived(files.received);
  const lastWindow = (): number =>
    Math.max(0, ...received().map(({ window_end }) => Date.parse(window_end)));
  const windowsPass = async (count: number): Promise<void> => {
    const until = Date.now() + count * WINDOW_MS;
    await vi.waitFor(() => expect(lastWindow()).toBeGreaterThanOrEqual(until), {
      timeout: (count + 6) * WINDOW_MS,
      interval: 250,
    });
  };
  return {
    files,
    windowMs: WINDOW_MS,
    received,
    lastWindow,
    windowsPass,
    expectBilledExactly: async () => {
      const ended = readTruth(files.truth);
      await windowsPass(3);
      expectExact(received(), ended);
      expect(receiver.stats()).toMatchObject({ conflicts: 0, refused: 0 });
    },
    stop: async () => {
      await simulator.stop();
      await receiver.stop();
      if (process.env['KEEP_RUN'] !== undefined) return;
      await rm(files.directory, { recursive: true, force: true });
    },
  };
}

function expectExact(events: readonly ReceivedEvent[], ended: ReturnType<typeof readTruth>): void {
  expect(repeatedIds(events)).toEqual([]);
  expect(missingWindows(events, WINDOW_MS)).toEqual([]);
  const pods = ended.filter(
    ({ namespace, startedAt }) =>
      namespace === 'tenant-burst' && Date.parse(startedAt) >= measuredFrom(events),
  );
  expect(pods.length).toBeGreaterThan(30);
  expect(wronglyBilled(pods, events).exact).toEqual([]);
}
