import { readdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type PostgresServer,
  startPostgres,
} from '../../operator/ledger/testing/postgres-server.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../postgres/proxy.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { type BilledRun, BILLED_RUN_ENV, startBilledRun } from './billed-run.ts';

/** Nobody listens there. */
const NO_PORT = 1;

describe('an operator whose database is away while the cluster lives on', () => {
  const cluster = useOwnTestCluster();
  let run: BilledRun;
  let server: PostgresServer;
  let proxy: DatabaseProxy;
  let operator: RunningOperator;
  let url = '';

  const startUp = async (): Promise<void> => {
    operator = await startOperator({
      files: run.files,
      kubeconfig: cluster.kubeconfigPath,
      env: { ...BILLED_RUN_ENV, LEDGER_URL: url, LEDGER_DURABILITY: 'storage' },
      signal: AbortSignal.timeout(60_000),
    });
  };

  /** Batches that wait, by the operator's own metric. */
  const waiting = async (): Promise<number> => {
    const text = await (await fetch(`${operator.address}/metrics`)).text();
    return Number(/^meterfeed_spool_batches (\d+)$/m.exec(text)?.[1]);
  };

  beforeAll(async () => {
    server = await startPostgres();
    const { name, user, port } = await server.createDatabase();
    proxy = await startDatabaseProxy(port);
    url = `postgresql://${user}@127.0.0.1:${proxy.port}/${name}?sslmode=disable`;
    run = await startBilledRun(cluster, 'database-away');
    await startUp();
  }, 120_000);
  afterAll(async () => {
    await operator?.stop();
    await run?.stop();
    await proxy?.close();
    await server?.stop();
  });

  test('bills every pod exactly and every window once, killed in the middle or not', async () => {
    await run.windowsPass(2);
    for (const kill of [true, false]) {
      proxy.lead(NO_PORT);
      proxy.cut();
      await delay(4 * run.windowMs);
      expect(await waiting()).toBeGreaterThan(0);
      expect(await readdir(run.files.data)).toContain('spool');
      if (kill) {
        signalProcess(operator.pid, 'SIGKILL');
        await operator.exited;
      }
      proxy.lead(server.port);
      if (kill) await startUp();
      await run.windowsPass(2);
      expect(await waiting()).toBe(0);
      expect(await readdir(run.files.data)).not.toContain('spool');
    }
    await run.expectBilledExactly();
  });
});
