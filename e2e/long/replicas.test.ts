import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { LedgerDatabase } from '../../operator/config/settings.ts';
import {
  type PostgresServer,
  startPostgres,
} from '../../operator/ledger/testing/postgres-server.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { type BilledRun, BILLED_RUN_ENV, startBilledRun } from './billed-run.ts';
import type { ReceivedEvent } from './received.ts';

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
  let run: BilledRun;
  let server: PostgresServer;
  let database: LedgerDatabase;
  let pods: readonly Pod[];

  const startPod = async (pod: Pod): Promise<void> => {
    const { host, port, name, user } = database;
    pod.running = await startOperator({
      files: pod.files,
      kubeconfig: cluster.kubeconfigPath,
      env: {
        ...BILLED_RUN_ENV,
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

  /** How much later than usual the windows were closed that ended from a moment on, in milliseconds. */
  const latest = (from: number): number => {
    const late = (event: ReceivedEvent): number =>
      Date.parse(event.recorded_at) - Date.parse(event.window_end) - SETTLING_MS;
    const since = run
      .received()
      .filter(
        ({ window_end, metric }) =>
          Date.parse(window_end) + SETTLING_MS >= from && metric !== PUSHED,
      );
    return Math.max(...since.map(late));
  };

  beforeAll(async () => {
    server = await startPostgres();
    database = await server.createDatabase();
    run = await startBilledRun(cluster, 'replicas');
    pods = ['one', 'two'].map((name) => {
      const files = runFiles(join(run.files.directory, name));
      mkdirSync(files.directory);
      writeFileSync(files.operatorPort, '0\n');
      return { files, running: undefined };
    });
    for (const pod of pods) await startPod(pod);
  }, 180_000);
  afterAll(async () => {
    for (const { running } of pods ?? []) await running?.stop();
    await run?.stop();
    await server?.stop();
  });

  test('answer the same, whoever is asked, and take usage in, whoever is told', async () => {
    await run.windowsPass(1);
    const [one, two] = pods;
    if (one === undefined || two === undefined) throw new Error('two');
    await vi.waitFor(async () => {
      const [first, second] = await Promise.all(
        [one, two].map((pod) => get(pod, '/api/v1/status')),
      );
      expect(first?.['last_window_end']).toBeTypeOf('string');
      expect(second).toMatchObject({ last_window_end: first?.['last_window_end'] });
    }, PATIENCE);
    // The same each time it is told, until discovery has looked after it.
    const end = run.lastWindow();
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
            window_start: new Date(end - run.windowMs).toISOString(),
            window_end: new Date(end).toISOString(),
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
      await run.windowsPass(1);
      await delay(afterCloseMs);
      const killedAt = Date.now();
      signalProcess(leading.running?.pid ?? 0, 'SIGKILL');
      await leading.running?.exited;
      leading.running = undefined;
      await run.windowsPass(1);
      expect(leads(standby(leading))).toBe(true);
      lateness.push(latest(killedAt));
      await startPod(leading);
    }
    console.error(`later than usual after a kill, ms: ${lateness.join(', ')}`);
    // Less than five seconds where the machine has nothing else to do.
    expect(Math.max(...lateness)).toBeLessThan(run.windowMs);
  });

  test('write nothing when they go on after another one has taken over from them', async () => {
    // A process has samples of usage from its start on: it takes over without a gap once it has been there for a window.
    await run.windowsPass(1);
    const frozen = await leader();
    const { pid = 0, exited } = frozen.running ?? {};
    signalProcess(pid, 'SIGSTOP');
    try {
      await run.windowsPass(1);
      expect(leads(standby(frozen))).toBe(true);
    } finally {
      signalProcess(pid, 'SIGCONT');
    }
    expect(await exited).toBe('exit code 1');
    frozen.running = undefined;
    await startPod(frozen);
    await run.windowsPass(1);
  });

  test('tell what stands behind a number, whoever is asked and whichever of them has measured it', async () => {
    const [oldest] = run.received().filter(({ metric }) => metric === 'tenant_cpu_core_hours');
    for (const pod of pods) {
      const { objects } = await get(pod, `/api/v1/events/${oldest?.id ?? ''}/explain`);
      expect(objects).not.toEqual([]);
    }
  });

  test('lose no window and delay none by more than seconds when they are updated one after the other', async () => {
    const from = Date.now();
    const first = await leader();
    for (const pod of [first, standby(first)]) {
      await pod.running?.stop();
      pod.running = undefined;
      await startPod(pod);
      await run.windowsPass(1);
    }
    const ms = latest(from);
    console.error(`later than usual in a rolling update, ms: ${ms}`);
    expect(ms).toBeLessThan(3_000);
  });

  test('have billed every pod exactly and every window once by the end of it all', async () => {
    await run.expectBilledExactly();
    const [pod] = pods;
    expect(pod && (await get(pod, '/api/v1/gaps'))).toMatchObject({ open: [], ended: [] });
  });
});
