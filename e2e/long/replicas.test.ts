import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { LedgerDatabase } from '../../operator/config/settings.ts';
import {
  type PostgresServer,
  startPostgres,
} from '../../operator/ledger/testing/postgres-server.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { applyCustomResources } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { type Receiver, startReceiver } from '../receiver/receiver.ts';
import { type Simulator, startSimulator } from '../simulator/simulator.ts';
import { readTruth } from '../simulator/truth.ts';
import { measuredFrom, wronglyBilled } from './billed-seconds.ts';
import { missingWindows, type ReceivedEvent, readReceived, repeatedIds } from './received.ts';

const WINDOW_MS = 10_000;
/** SETTLING_DELAY: so long after its end a window is closed in any case. */
const SETTLING_MS = 3_000;
const TOKEN = 'token-of-the-replicas';
/** What the collector does not measure here. */
const PUSHED = 'tenant_network_egress_gb';
const PATIENCE = { timeout: 60_000, interval: 250 };

/** One of the processes, as a pod that is started again whenever it ends. */
interface Pod {
  readonly files: RunFiles;
  running: RunningOperator | undefined;
}

/** Two processes of the operator on one cluster and one database: one leads, the other takes over, whatever becomes of the first. */
describe('two replicas', () => {
  const cluster = useOwnTestCluster();
  const secret = 'replicas-secret';
  let directory: string;
  let receiver: Receiver;
  let received: string;
  let truth: string;
  let simulator: Simulator;
  let server: PostgresServer;
  let database: LedgerDatabase;
  let pods: readonly Pod[];

  const startPod = async (pod: Pod): Promise<void> => {
    const { host, port, name, user } = database;
    pod.running = await startOperator({
      files: pod.files,
      kubeconfig: cluster.kubeconfigPath,
      env: {
        CLUSTER_NAME: 'local',
        REGION: 'local',
        PLATFORM_CLUSTER: 'local',
        COLLECTION_INTERVAL: '10s',
        API_TOKEN: TOKEN,
        LEDGER_URL: `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`,
        LEDGER_DURABILITY: 'storage',
      },
      signal: AbortSignal.timeout(60_000),
    });
  };

  const leads = ({ files }: Pod): boolean =>
    readFileSync(files.operatorLog, 'utf8').includes('this process leads');

  const leader = async (): Promise<Pod> => {
    const found = await vi.waitFor(() => {
      const all = pods.filter((pod) => pod.running !== undefined && leads(pod));
      expect(all).toHaveLength(1);
      return all[0];
    }, PATIENCE);
    if (found === undefined) throw new Error('nobody leads');
    return found;
  };

  const standby = (of: Pod): Pod => {
    const other = pods.find((pod) => pod !== of);
    if (other === undefined) throw new Error('there is no other');
    return other;
  };

  const get = async ({ running }: Pod, path: string): Promise<Record<string, unknown>> => {
    const response = await fetch(`${running?.address ?? ''}${path}`, {
      headers: { Authorization: `Bearer ${TOKEN}` },
    });
    if (response.status !== 200) {
      throw new Error(`GET ${path}: HTTP ${response.status}: ${await response.text()}`);
    }
    return (await response.json()) as Record<string, unknown>;
  };

  const lastWindow = (): number =>
    Math.max(0, ...readReceived(received).map(({ window_end }) => Date.parse(window_end)));

  const windowsPass = async (count: number): Promise<void> => {
    const until = Date.now() + count * WINDOW_MS;
    await vi.waitFor(() => expect(lastWindow()).toBeGreaterThanOrEqual(until), {
      timeout: (count + 5) * WINDOW_MS,
      interval: 250,
    });
  };

  /** How much later than usual the windows were closed that ended from a moment on, in milliseconds. */
  const latest = (from: number): number => {
    const late = (event: ReceivedEvent): number =>
      Date.parse(event.recorded_at) - Date.parse(event.window_end) - SETTLING_MS;
    const since = readReceived(received).filter(
      ({ window_end, metric }) => Date.parse(window_end) + SETTLING_MS >= from && metric !== PUSHED,
    );
    return Math.max(...since.map(late));
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'replicas-'));
    received = join(directory, 'received.ndjson');
    truth = join(directory, 'truth.ndjson');
    server = await startPostgres();
    database = await server.createDatabase();
    receiver = await startReceiver({ file: received, secret, port: 0 });
    await applyCustomResources(cluster.kubectl, { url: receiver.url, secret });
    simulator = await startSimulator({
      credentials: cluster.credentials,
      truthFile: truth,
      log: (line) => console.error(line),
    });
    pods = ['one', 'two'].map((name) => {
      const files = runFiles(join(directory, name));
      mkdirSync(files.directory);
      writeFileSync(files.operatorPort, '0\n');
      return { files, running: undefined };
    });
    for (const pod of pods) await startPod(pod);
  }, 180_000);
  afterAll(async () => {
    for (const { running } of pods ?? []) await running?.stop();
    await simulator?.stop();
    await receiver?.stop();
    await server?.stop();
    if (process.env['KEEP_RUN'] === undefined)
      await rm(directory, { recursive: true, force: true });
  });

  test('answer the same, whoever is asked, and take usage in, whoever is told', async () => {
    await windowsPass(1);
    const [one, two] = pods;
    if (one === undefined || two === undefined) throw new Error('two');
    await vi.waitFor(async () => {
      const [first, second] = await Promise.all(
        [one, two].map((pod) => get(pod, '/api/v1/status')),
      );
      expect(first?.['last_window_end']).toBeTypeOf('string');
      expect(second).toMatchObject({ last_window_end: first?.['last_window_end'] });
    }, PATIENCE);
    for (const [index, { running }] of pods.entries()) {
      // Until it has looked at the tenant clusters once more it asks to be told again.
      await vi.waitFor(async () => {
        const response = await fetch(`${running?.address ?? ''}/api/v1/events`, {
          method: 'POST',
          headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
          body: JSON.stringify({
            id: `pushed-${index}`,
            tenant: 'whom-nobody-knows',
            metric: PUSHED,
            quantity: 1,
            window_start: new Date(lastWindow() - WINDOW_MS).toISOString(),
            window_end: new Date(lastWindow()).toISOString(),
          }),
        });
        expect(await response.json()).toMatchObject({ accepted: 1 });
      }, PATIENCE);
    }
    for (const pod of pods) {
      expect(await get(pod, '/api/v1/held-tenants')).toMatchObject({
        held_tenants: [{ tenant: 'whom-nobody-knows', events: 2 }],
      });
      const { destinations } = await get(pod, '/api/v1/destinations');
      expect(destinations).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ name: 'local-receiver', ready: true }),
          expect.objectContaining({ name: 'dry-run', ready: true }),
        ]),
      );
      expect(await get(pod, '/api/v1/destinations/local-receiver/dead-letters')).toMatchObject({
        dead_letters: [],
      });
    }
  });

  test('close the next window in time when the one that leads is killed, and bill every pod exactly and every window once', async () => {
    const lateness: number[] = [];
    for (const afterCloseMs of [500, 6_000, 9_000]) {
      const leading = await leader();
      await windowsPass(1);
      await delay(afterCloseMs);
      const killedAt = Date.now();
      signalProcess(leading.running?.pid ?? 0, 'SIGKILL');
      await leading.running?.exited;
      leading.running = undefined;
      await windowsPass(1);
      expect(leads(standby(leading))).toBe(true);
      lateness.push(latest(killedAt));
      await startPod(leading);
    }
    console.error(`later than usual after a kill, ms: ${lateness.join(', ')}`);
    // Less than five seconds where the machine has nothing else to do.
    expect(Math.max(...lateness)).toBeLessThan(WINDOW_MS);
  });

  test('lose no window and delay none by more than seconds when they are updated one after the other', async () => {
    const from = Date.now();
    const first = await leader();
    for (const pod of [first, standby(first)]) {
      await pod.running?.stop();
      pod.running = undefined;
      await startPod(pod);
      await windowsPass(1);
    }
    const ms = latest(from);
    console.error(`later than usual in a rolling update, ms: ${ms}`);
    expect(ms).toBeLessThan(3_000);
  });

  test('have billed every pod exactly and every window once by the end of it all', async () => {
    const ended = readTruth(truth);
    await windowsPass(3);
    const events = readReceived(received);
    expect(repeatedIds(events)).toEqual([]);
    expect(missingWindows(events, WINDOW_MS)).toEqual([]);
    expect(receiver.stats()).toMatchObject({ conflicts: 0, refused: 0 });
    const burst = ended.filter(
      ({ namespace, startedAt }) =>
        namespace === 'tenant-burst' && Date.parse(startedAt) >= measuredFrom(events),
    );
    expect(burst.length).toBeGreaterThan(30);
    expect(wronglyBilled(burst, events).exact).toEqual([]);
    const [pod] = pods;
    expect(pod && (await get(pod, '/api/v1/gaps'))).toMatchObject({ open: [], ended: [] });
  });
});
