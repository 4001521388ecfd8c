import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { manifest, webhookDestination } from '../../../e2e/local/custom-resources.ts';
import { startOperator } from '../../../e2e/local/operator-process.ts';
import { runFiles } from '../../../e2e/local/run-directory.ts';
import { startReceiver } from '../../../e2e/receiver/receiver.ts';
import { startSimulator } from '../../../e2e/simulator/simulator.ts';
import { loadKubeConfig } from '../../kubernetes/kube-config.ts';
import { usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import { databaseUrl, startHub } from './testing/fleet-world.ts';

const cluster = useOwnTestCluster();
const used = usePostgres();
const ROOT = join(import.meta.dirname, '../../..');
const WITHIN = { timeout: 90_000, interval: 200 };
const SECRET = 'a-signing-key';
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});
const started = async <T extends { stop(): Promise<unknown> }>(
  starting: Promise<T>,
): Promise<T> => {
  const it = await starting;
  cleanups.push(() => it.stop());
  return it;
};

test('a destination of a meter gets each event once from it beside the hub’s, and from a hub that comes to its cluster from then on', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-own-'));
  cleanups.push(() => rm(directory, { recursive: true, force: true }));
  const database = await used.server().createDatabase();
  const receiver = async (name: string) => {
    const file = join(directory, `${name}.ndjson`);
    const receiving = await started(startReceiver({ file, secret: SECRET, port: 0 }));
    const ids = async (): Promise<readonly string[]> =>
      (await readFile(file, 'utf8').catch(() => ''))
        .split('\n')
        .flatMap((line) => (line === '' ? [] : [String(JSON.parse(line).id)]));
    return { url: receiving.url, ids, duplicates: () => receiving.stats().duplicates };
  };
  const own = await receiver('own');
  const hubs = await receiver('hubs');
  await cluster.kubectl(['apply', '--kustomize', ROOT]);
  await cluster.kubectl(
    ['apply', '--filename', '-'],
    manifest(webhookDestination('own', { url: own.url, secret: SECRET })),
  );
  await started(
    startSimulator({
      credentials: cluster.credentials,
      truthFile: join(directory, 'truth.ndjson'),
      log: () => {},
    }),
  );
  await started(
    startOperator({
      files: runFiles(directory),
      kubeconfig: cluster.kubeconfigPath,
      env: {
        ROLE: 'meter',
        CLUSTER_NAME: 'berlin',
        REGION: 'eu-1',
        LEDGER_URL: databaseUrl(database),
        LEDGER_DURABILITY: 'storage',
        COLLECTION_INTERVAL: '10s',
        RECONCILE_INTERVAL: '5s',
        // It is the hub's alone.
        ADAPTERS: 'webhook',
        WEBHOOK_URL: hubs.url,
        WEBHOOK_SECRET: SECRET,
      },
      signal: AbortSignal.timeout(60_000),
    }),
  );
  const away = await startHub([database], {
    ADAPTERS: 'webhook',
    DESTINATIONS_START_FROM: 'earliest',
    WEBHOOK_URL: hubs.url,
    WEBHOOK_SECRET: SECRET,
  });
  cleanups.push(() => away.stop());
  const inStep = async (more: number): Promise<boolean> => {
    const [ours, theirs] = [await own.ids(), await hubs.ids()];
    return ours.length > more && ours.toSorted().join() === theirs.toSorted().join();
  };
  await expect.poll(() => inStep(0), WITHIN).toBe(true);
  const object = async (): Promise<Readonly<Record<string, unknown>>> => {
    const read: unknown = JSON.parse(await cluster.kubectl(['get', 'bdest/own', '-o', 'json']));
    return isRecord(read) ? read : {};
  };
  expect(await object()).toMatchObject({ metadata: { finalizers: ['meterfeed.io/cursor'] } });

  // Another hub, which runs in that cluster.
  await away.stop();
  const access = loadKubeConfig({ kind: 'file', path: cluster.kubeconfigPath });
  if (access.kind === 'invalid') throw new Error(access.reason);
  const here = await started(
    startHub(
      [database],
      { ADAPTERS: 'webhook', WEBHOOK_URL: hubs.url, WEBHOOK_SECRET: SECRET },
      { kubeConfig: access.kubeConfig, namespace: 'meterfeed-system' },
    ),
  );
  await expect
    .poll(object, WITHIN)
    .toMatchObject({ metadata: { finalizers: ['meterfeed.io/hub-cursors'] } });
  const feeders = async (): Promise<unknown> => (await here.get('/api/v1/status')).json;
  await expect
    .poll(feeders, WITHIN)
    .toMatchObject({ destinations: [{ name: 'webhook' }, { name: 'own' }] });
  const before = (await own.ids()).length;
  await expect.poll(() => inStep(before + 10), WITHIN).toBe(true);
  // Nothing came twice: a receiver counts it where it does, and keeps one.
  expect([own.duplicates(), hubs.duplicates()]).toEqual([0, 0]);
}, 300_000);
