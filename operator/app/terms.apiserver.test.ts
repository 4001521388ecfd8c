import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../../e2e/postgres/proxy.ts';
import { installCustomResources } from '../controllers/testing/install.ts';
import type { LedgerDatabase } from '../settings/settings.ts';
import { usePostgres } from '../ledger/testing/postgres-ledger.ts';
import { type LedProcess, startLedProcess } from './testing/led-world.ts';

const cluster = useOwnTestCluster();
const used = usePostgres();
const PATIENCE = { timeout: 60_000, interval: 100 };
/** Of the stream, by the default of CLUSTER_NAME. */
const SCHEMA = 'meterfeed_control_plane';
let namespace: string;
let database: LedgerDatabase;
let processes: LedProcess[];
let proxies: DatabaseProxy[];

beforeAll(async () => {
  await installCustomResources(cluster);
});
beforeEach(async () => {
  namespace = await cluster.createNamespace('led');
  database = await used.server().createDatabase();
  processes = [];
  proxies = [];
});
afterEach(async () => {
  await Promise.all(processes.map((each) => each.stop()));
  await Promise.all(proxies.map((each) => each.close()));
  await cluster.request('DELETE', '/apis/meterfeed.io/v1alpha1/meteringpolicies/default');
});

function urlAt(port: number): string {
  return `postgresql://${database.user}@127.0.0.1:${port}/${database.name}?sslmode=disable`;
}

async function start(pod: string, port = database.port): Promise<LedProcess> {
  const started = await startLedProcess({ cluster, namespace, pod, url: urlAt(port) });
  processes.push(started);
  return started;
}

const leases = () => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/meterfeed`;

/** Gives the Lease to a process that does not exist, or to nobody. */
async function giveLeaseTo(holder: string): Promise<void> {
  await vi.waitFor(async () => {
    const lease = await cluster.call('GET', leases());
    const spec = { ...Object(lease['spec']), holderIdentity: holder };
    await cluster.call('PUT', leases(), { ...lease, spec });
  }, PATIENCE);
}

test('a request to the process that waits is answered as if it did everything', {
  timeout: 120_000,
}, async () => {
  const first = await start('meterfeed-0');
  await first.leads();
  const second = await start('meterfeed-1');
  await vi.waitFor(async () => expect((await second.get('/readyz')).status).toBe(200), PATIENCE);
  expect(await second.get('/api/v1/status')).toEqual({
    status: 503,
    retryAfter: '5',
    text: expect.stringContaining('this process is a standby'),
  });
  expect((await second.get('/leaderz')).status).toBe(503);
  expect((await second.get('/metrics')).text).toContain('meterfeed_leading 0');
  expect((await first.get('/metrics')).text).toContain('meterfeed_leading 1');
  expect((await first.get('/api/v1/status')).status).toBe(200);
  await vi.waitFor(async () => {
    expect([await first.isLabelled(), await second.isLabelled()]).toEqual([true, false]);
  }, PATIENCE);
  await first.stop();
  await second.leads();
  await vi.waitFor(async () => {
    expect([await first.isLabelled(), await second.isLabelled()]).toEqual([false, true]);
  }, PATIENCE);
});

test('a leader whose Lease another process has goes on, or ends the process', {
  timeout: 120_000,
}, async () => {
  const first = await start('meterfeed-0');
  await first.leads();
  await vi.waitFor(async () => expect(await first.isLabelled()).toBe(true), PATIENCE);
  await giveLeaseTo('somebody else');
  await vi.waitFor(
    async () => expect((await first.get('/api/v1/status')).status).toBe(503),
    PATIENCE,
  );
  await vi.waitFor(() => {
    expect(first.log()).toContain('stands by: "somebody else" has taken it');
  }, PATIENCE);
  await vi.waitFor(async () => expect(await first.isLabelled()).toBe(false), PATIENCE);
  expect((await first.get('/readyz')).status).toBe(200);
  await giveLeaseTo('');
  await first.leads();
  expect((await first.get('/api/v1/status')).status).toBe(200);
});

test('a leader goes on after another one has begun an epoch of the stream', {
  timeout: 120_000,
}, async () => {
  const first = await start('meterfeed-0');
  await first.leads();
  const bumped = `update ${SCHEMA}.stream set epoch = epoch + 1`;
  await used.server().query(bumped, database.name);
  await vi.waitFor(() => {
    expect(first.log()).toContain('stands by: another process leads by the epoch');
  }, PATIENCE);
  await first.leads();
});

test('a process that is older than the tables leads, or calls itself ready', {
  timeout: 120_000,
}, async () => {
  const first = await start('meterfeed-0');
  await first.leads();
  await first.stop();
  const newer = `insert into ${SCHEMA}.version (version) select max(version) + 1 from ${SCHEMA}.version`;
  await used.server().query(newer, database.name);
  const second = await start('meterfeed-1');
  await vi.waitFor(async () => {
    const { status, text } = await second.get('/readyz?verbose');
    expect([status, text]).toEqual([503, expect.stringContaining('run the newer program')]);
  }, PATIENCE);
  expect(second.log()).not.toContain('this process leads');
});

test('a leader that cannot reach the database for a minute leaves a gap, or another one waits for ever', {
  timeout: 240_000,
}, async () => {
  const proxy = await startDatabaseProxy(database.port);
  proxies.push(proxy);
  const first = await start('meterfeed-0', proxy.port);
  await first.leads();
  proxy.lead(1);
  proxy.cut();
  const second = await start('meterfeed-1', proxy.port);
  await vi.waitFor(() => expect(first.log()).toContain('the lease is released'), PATIENCE);
  expect((await first.get('/readyz')).status).toBe(200);
  expect((await first.get('/leaderz')).status).toBe(503);
  expect((await second.get('/readyz')).status).toBe(503);
  proxy.lead(database.port);
  await first.leads();
  expect(first.log()).not.toContain('stepped down');
  expect(second.log()).not.toContain('this process leads');
  await vi.waitFor(async () => {
    const { text } = await first.get('/api/v1/windows');
    expect(JSON.parse(text).windows.length).toBeGreaterThan(6);
  }, PATIENCE);
  expect(JSON.parse((await first.get('/api/v1/gaps')).text)).toMatchObject({ open: [], ended: [] });
});
