import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type PostgresServer,
  startPostgres,
} from '../../operator/ledger/testing/postgres-server.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../postgres/proxy.ts';
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

  /** Seconds since the end of the oldest window that is not in the database, by the operator's own metric. */
  const lag = async (): Promise<number> => {
    const text = await (await fetch(`${operator.address}/metrics`)).text();
    return Number(/^meterfeed_window_lag_seconds (\S+)$/m.exec(text)?.[1]);
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

  test('bills every pod exactly and every window once, as soon as it is back', async () => {
    await run.windowsPass(2);
    proxy.lead(NO_PORT);
    proxy.cut();
    // Longer than a leader keeps its Lease without the database.
    await delay(Math.max(4 * run.windowMs, 40_000));
    expect(await lag()).toBeGreaterThan((2 * run.windowMs) / 1_000);
    expect((await fetch(`${operator.address}/readyz`)).status).toBe(200);
    proxy.lead(server.port);
    await run.windowsPass(2);
    expect(await lag()).toBeLessThan((2 * run.windowMs) / 1_000);
    await run.expectBilledExactly();
  });
});
