import { writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  type PostgresServer,
  startPostgres,
} from '../../operator/ledger/testing/postgres-server.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { applyCustomResources } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../postgres/proxy.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { type Receiver, startReceiver } from '../receiver/receiver.ts';
import { type Simulator, startSimulator } from '../simulator/simulator.ts';
import { readTruth } from '../simulator/truth.ts';
import { measuredFrom, wronglyBilled } from './billed-seconds.ts';
import { missingWindows, readReceived, repeatedIds } from './received.ts';

const WINDOW_MS = 10_000;
/** Nobody listens there. */
const NO_PORT = 1;

describe('an operator whose database is away while the cluster lives on', () => {
  const cluster = useOwnTestCluster();
  const secret = 'away-secret';
  let files: RunFiles;
  let server: PostgresServer;
  let proxy: DatabaseProxy;
  let receiver: Receiver;
  let simulator: Simulator;
  let operator: RunningOperator;
  let url = '';

  const startUp = async (): Promise<void> => {
    operator = await startOperator({
      files,
      kubeconfig: cluster.kubeconfigPath,
      env: {
        CLUSTER_NAME: 'local',
        REGION: 'local',
        PLATFORM_CLUSTER: 'local',
        COLLECTION_INTERVAL: '10s',
        LEDGER_URL: url,
        LEDGER_DURABILITY: 'storage',
      },
      signal: AbortSignal.timeout(60_000),
    });
  };

  const windowsPass = async (count: number): Promise<void> => {
    const until = Date.now() + count * WINDOW_MS;
    const last = () =>
      Math.max(0, ...readReceived(files.received).map((event) => Date.parse(event.window_end)));
    await vi.waitFor(() => expect(last()).toBeGreaterThanOrEqual(until), {
      timeout: (count + 6) * WINDOW_MS,
      interval: 500,
    });
  };

  /** Batches that wait, by the operator's own metric. */
  const waiting = async (): Promise<number> => {
    const text = await (await fetch(`${operator.address}/metrics`)).text();
    return Number(/^meterfeed_spool_batches (\d+)$/m.exec(text)?.[1]);
  };

  beforeAll(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'database-away-')));
    writeFileSync(files.operatorPort, '0\n');
    server = await startPostgres();
    const { name, user, port } = await server.createDatabase();
    proxy = await startDatabaseProxy(port);
    url = `postgresql://${user}@127.0.0.1:${proxy.port}/${name}?sslmode=disable`;
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
    await proxy?.close();
    await server?.stop();
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(files.directory, { recursive: true, force: true });
    }
  });

  test('bills every pod exactly and every window once, killed in the middle or not', async () => {
    await windowsPass(2);
    for (const kill of [true, false]) {
      proxy.lead(NO_PORT);
      proxy.cut();
      await delay(4 * WINDOW_MS);
      expect(await waiting()).toBeGreaterThan(0);
      expect(await readdir(files.data)).toContain('spool');
      if (kill) {
        signalProcess(operator.pid, 'SIGKILL');
        await operator.exited;
      }
      proxy.lead(server.port);
      if (kill) await startUp();
      await windowsPass(2);
      expect(await waiting()).toBe(0);
      expect(await readdir(files.data)).not.toContain('spool');
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
