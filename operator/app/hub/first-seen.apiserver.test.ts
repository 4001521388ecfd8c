import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { manifest, webhookDestination } from '../../../e2e/local/custom-resources.ts';
import { testTenant } from '../../destinations/testing/context.ts';
import { loadKubeConfig } from '../../kubernetes/kube-config.ts';
import { usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { playMeter, startHub, startReceiving, usageOf } from './testing/fleet-world.ts';

const cluster = useOwnTestCluster();
const used = usePostgres();
const CRD = join(import.meta.dirname, '../../../crds/billingdestinations.yaml');
const WITHIN = { timeout: 30_000, interval: 100 };
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

test('a destination of a hub is not sent what any stream had recorded before its Secret was there', async () => {
  await cluster.installCRDs(CRD);
  const namespace = await cluster.createNamespace('hub');
  const database = await used.server().createDatabase();
  const meter = async (source: string, region: string, role?: 'all') => {
    const played = await started(playMeter(database, { source, region, role }));
    await played.setTenants(testTenant({ id: source, displayName: source, clusters: [source] }));
    const record = (window: number) =>
      played.ledger.append({ events: [usageOf(source, region, window)] });
    await record(0);
    const places = async () =>
      (await played.cursors()).map(({ destination, sequence, retiredAt }) => {
        return [destination, sequence, retiredAt === undefined ? 'kept' : 'retired'];
      });
    return { record, places };
  };
  const berlin = await meter('berlin', 'eu-1');
  const rome = await meter('rome', 'eu-3', 'all');
  const access = loadKubeConfig({ kind: 'file', path: cluster.kubeconfigPath });
  if (access.kind === 'invalid') throw new Error(access.reason);
  await started(startHub([database], {}, { kubeConfig: access.kubeConfig, namespace }));

  const received = await started(startReceiving());
  const made = { url: received.url, secret: 'a-signing-key' };
  const [secret, late] = webhookDestination('late', made, namespace);
  const [, never] = webhookDestination('never', made, namespace);
  const fromNow = [late, never].map((object) => ({
    ...object,
    spec: {
      type: 'webhook',
      webhook: {
        url: received.url,
        secretRefs: [{ name: 'late', key: 'signing-key' }],
      },
    },
  }));
  await cluster.kubectl(['apply', '--filename', '-'], manifest(fromNow));
  await expect.poll(berlin.places, WITHIN).toEqual([
    ['late', 1, 'kept'],
    ['never', 1, 'kept'],
  ]);
  await berlin.record(1);
  // A stream that joins now may have recorded one event when the hub sees it.
  const paris = await meter('paris', 'eu-2');
  await expect.poll(paris.places, WITHIN).toHaveLength(2);
  const [[, joinedAt] = []] = await paris.places();
  const seen = joinedAt === 0 ? 2 : 1;
  await paris.record(1);
  const stalled = async () =>
    cluster.kubectl([
      'get',
      'bdest/late',
      '--output=jsonpath={.status.conditions[?(@.type=="Stalled")].message}',
    ]);
  await expect.poll(stalled, WITHIN).toMatch(/once it is usable it sends windows from 20\S+Z on/);

  await cluster.kubectl(['delete', '--timeout=30s', 'bdest/never']);
  await expect
    .poll(async () => [...(await berlin.places()), ...(await paris.places())], WITHIN)
    .toEqual([
      ['late', 1, 'kept'],
      ['never', 1, 'retired'],
      ['late', joinedAt, 'kept'],
      ['never', expect.any(Number), 'retired'],
    ]);
  await cluster.kubectl(['apply', '--filename', '-'], manifest([secret ?? {}]));
  const usage = () => received.events.filter((one) => one.includes('.usage.')).toSorted();
  await expect
    .poll(usage, WITHIN)
    .toEqual([
      expect.stringMatching(/^berlin /),
      ...Array.from({ length: seen }, () => expect.stringMatching(/^paris /) as unknown),
    ]);
  // Its operator feeds all that it has by itself.
  expect(await rome.places()).toEqual([]);
}, 120_000);
