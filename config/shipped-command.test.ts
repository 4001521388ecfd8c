import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer as createHttpsServer } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { inspect, promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CERTIFICATE_FILES, ensureCertificates } from '../e2e/control-plane/certificates.ts';
import {
  type EphemeralControlPlane,
  startEphemeralControlPlane,
} from '../e2e/control-plane/ephemeral.ts';
import { createKubectl } from '../e2e/control-plane/kubectl.ts';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { applyPolicy } from '../e2e/local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../e2e/local/operator-process.ts';
import { runFiles } from '../e2e/local/run-directory.ts';
import { logTail } from '../e2e/processes/managed-process.ts';
import { bundle } from '../scripts/bundle.ts';
import { shippedOptions } from './testing/shipped-options.ts';
import { HOSTILE, kubeconfigText } from '../operator/tenant-api/testing/kubeconfigs.ts';

const host = useOwnTestCluster();

const PATIENCE_MS = 90_000;

/** Where things are in the image, and where they are here. */
let directory = '';
let places: Readonly<Record<string, string>> = {};
let tenant: EphemeralControlPlane;
let operator: RunningOperator | undefined;
let receiver: Awaited<ReturnType<typeof startReceiver>> | undefined;

const INGEST_TOKEN = 'pushes-tokens-4f6a1d9b';
/** Beside the native module; the book is in it. */
const MAX_BUNDLE_BYTES = 11 * 1024 * 1024;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-shipped-'));
  places = {
    '/app': join(directory, 'app'),
    '/var/run/secrets': join(directory, 'secrets'),
    '/var/lib/vbilling-data': join(directory, 'data'),
    '/tmp': join(directory, 'tmp'),
  };
  for (const place of Object.values(places)) await mkdir(place, { recursive: true });
  await bundle(join(directory, 'app'));
  receiver = await startReceiver();
  tenant = await startEphemeralControlPlane();
}, 10 * 60_000);

afterAll(async () => {
  await operator?.stop();
  await tenant?.stop();
  receiver?.server.close();
  await rm(directory, { recursive: true, force: true });
});

test('the image is small: the bundle without the native module', async () => {
  const files = await readdir(join(directory, 'app'), { recursive: true, withFileTypes: true });
  const own = files.filter((file) => file.isFile() && !file.parentPath.includes('prebuilds'));
  const sizes = await Promise.all(own.map(({ parentPath, name }) => stat(join(parentPath, name))));
  const bytes = sizes.reduce((sum, { size }) => sum + size, 0);
  expect(bytes).toBeGreaterThan(1_000_000);
  expect(bytes).toBeLessThan(MAX_BUNDLE_BYTES);
});

test('the second wall does not stand: a process that the operator starts is refused', async () => {
  const options = await shippedOptions(places);
  expect(options).toContain('--permission');
  expect(options.filter((option) => option.startsWith('--allow-child-process'))).toEqual([]);
  const attempt = (script: string) =>
    promisify(execFile)(process.execPath, [...options, '--input-type=module', '-e', script]);
  await expect(
    attempt("import('node:child_process').then((c) => c.execSync('true'))"),
  ).rejects.toThrow('ERR_ACCESS_DENIED');
  await expect(
    attempt("import('node:fs').then((f) => f.readFileSync('/proc/self/environ'))"),
  ).rejects.toThrow('ERR_ACCESS_DENIED');
  await expect(
    attempt("import('node:fs').then((f) => f.writeFileSync('/etc/x', ''))"),
  ).rejects.toThrow('ERR_ACCESS_DENIED');
  // As the operator starts its thread.
  const inThread = (script: string): string =>
    `import('node:worker_threads').then(({ Worker }) => new Worker(${JSON.stringify(script)}, { eval: true, env: {} }))`;
  await expect(
    attempt(inThread("import('node:child_process').then((c) => c.execSync('true'))")),
  ).rejects.toThrow('ERR_ACCESS_DENIED');
  await expect(
    attempt(inThread("import('node:fs').then((f) => f.readFileSync('/proc/self/environ'))")),
  ).rejects.toThrow('ERR_ACCESS_DENIED');
});

test('a path that the image keeps closed is named before anything is begun, and all are', async () => {
  const options = await shippedOptions(places);
  const env = {
    DATA_DIR: '/data',
    TENANT_CLUSTERS_FILE: '/mnt/clusters.yaml',
    PROMETHEUS_BEARER_TOKEN_FILE: '/mnt/token',
    PROMETHEUS_METRICS_FILE: '/etc/meterfeed/prometheus/metrics.yaml',
    COLLECTION_INTERVAL: '7m',
  };
  const ended = await promisify(execFile)(
    process.execPath,
    [...options, join(directory, 'app', 'main.js')],
    { env },
  ).catch((error: unknown) => error);
  const written = ['/var/lib/vbilling-data', '/tmp'];
  const read = ['/app', '/etc', '/var/run/secrets', ...written];
  const denied = (access: 'read' | 'write', name: string, path: string): string => {
    const below = (access === 'read' ? read : written).map((place) => places[place] ?? place);
    return `${name}: the process may not ${access} there: "${path}"; name a path below ${below.join(' or ')}, or start Node with --allow-fs-${access}=${path}`;
  };
  expect(ended).toMatchObject({ code: 2 });
  const lines = String((ended as { stderr: unknown }).stderr)
    .trim()
    .split('\n');
  // Node itself warns of native addons.
  expect(lines.filter((line) => !line.startsWith('('))).toEqual([
    expect.stringContaining('COLLECTION_INTERVAL: does not divide an hour'),
    denied('write', 'DATA_DIR', '/data'),
    denied('read', 'TENANT_CLUSTERS_FILE', '/mnt/clusters.yaml'),
    denied('read', 'PROMETHEUS_BEARER_TOKEN_FILE', '/mnt/token'),
  ]);
});

test(
  'accident 35: hostile kubeconfigs run a program, read a file or connect, and nobody is told',
  async () => {
    const program = join(directory, 'program.sh');
    const mark = join(directory, 'tmp', 'mark');
    await writeFile(program, `#!/bin/sh\ntouch ${mark}\necho '{}'\n`);
    await chmod(program, 0o755);
    const secretFile = join(directory, 'secrets', 'token');
    await writeFile(secretFile, 'canary-token-of-the-operator');
    const connections: unknown[] = [];
    const listener = createServer((socket) => {
      connections.push(socket);
      socket.destroy();
    });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.2', resolve));
    const address = listener.address();
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    const means = { program, listener: `http://127.0.0.2:${port}`, secretFile };

    await addTenantCluster('own', tenant.kubeconfig);
    for (const [index, { parts }] of HOSTILE.entries()) {
      await addTenantCluster(`hostile-${index}`, kubeconfigText(parts(means)));
    }
    await addTenantCluster('missing', undefined);
    await tenantNode('node-1');
    await applyPolicy(host.kubectl, { tenantAPI: { allowedHosts: ['127.0.0.1'] } });
    await host.kubectl(['create', 'namespace', 'meterfeed-system']);

    operator = await startOperator({
      files: { ...runFiles(directory), data: join(directory, 'data') },
      kubeconfig: await written('kubeconfig', host.kubeconfig),
      program: join(directory, 'app', 'main.js'),
      nodeOptions: await shippedOptions(places),
      env: {
        COLLECTION_INTERVAL: '10s',
        RECONCILE_INTERVAL: '2s',
        INGEST_TOKEN,
        CUSTOM_METRICS: 'tokens_used:tokens',
        ADAPTERS: 'webhook',
        WEBHOOK_URL: receiver?.url ?? '',
        NODE_EXTRA_CA_CERTS: receiver?.authority ?? '',
        HOME: join(directory, 'secrets'),
      },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    try {
      const failed = await failuresOnce(HOSTILE.length + 1);
      for (const [index, { name, field }] of HOSTILE.entries()) {
        const id = `tenant-tenant-hostile-${index}-hostile-${index}`;
        expect(failed.get(id), name).toContain(field);
        expect(failed.get(id), name).toMatch(/^kubeconfig refused: /);
      }
      expect(failed.get('tenant-tenant-missing-missing')).toMatch(/^no kubeconfig: .*missing$/);
      expect(failed.get('tenant-tenant-own-own')).toBe(undefined);
      expect(JSON.stringify([...failed])).not.toContain('canary');

      const metered = await eventsOnce((events) => events.includes('tenant_private_node_hours'));
      expect(metered).toContain('tenant-tenant-own-own');
      await eventsOnce((events) => events.includes('tenant_private_node_hours'));
      await policyCounts(HOSTILE.length + 1);
      await pushTokens();
      await until(
        async () => receiver?.bodies.join('') ?? '',
        (all) => all.includes('tokens_used'),
      );
      const page = await fetch(`${operator.address}/`, { headers: { accept: 'text/html' } });
      expect(await page.text()).toContain('<title>meterfeed</title>');
      const script = await fetch(`${operator.address}/dashboard/main.js`);
      expect(script.headers.get('content-type')).toContain('javascript');

      expect(connections).toEqual([]);
      expect(await readdir(join(directory, 'tmp'))).toEqual([]);
      expect(await childrenOf(operator.pid)).toBe('');
      expect(await readFile(runFiles(directory).operatorLog, 'utf8')).not.toContain('canary');
    } catch (error) {
      throw new Error(logTail(runFiles(directory).operatorLog, 30), { cause: error });
    } finally {
      listener.close();
    }
  },
  2 * PATIENCE_MS,
);

/** Takes batches over TLS, with a certificate of an authority that nobody knows by itself. */
async function startReceiver() {
  const place = join(directory, 'secrets', 'tls');
  await ensureCertificates(place, Date.now());
  const [cert, key] = await Promise.all(
    [CERTIFICATE_FILES.serving, CERTIFICATE_FILES.servingKey].map((name) =>
      readFile(join(place, name)),
    ),
  );
  const bodies: string[] = [];
  const server = createHttpsServer({ cert, key }, (request, response) => {
    void text(request).then((body) => {
      bodies.push(body);
      response.writeHead(202).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const url = `https://127.0.0.1:${port}/usage`;
  return { server, bodies, url, authority: join(place, CERTIFICATE_FILES.authority) };
}

async function pushTokens(): Promise<void> {
  const end = Math.floor(Date.now() / 60_000) * 60_000;
  const response = await fetch(`${operator?.address}/api/v1/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${INGEST_TOKEN}` },
    body: JSON.stringify({
      tenant: 'acme',
      metric: 'tokens_used',
      quantity: 12.5,
      window_start: new Date(end - 60_000).toISOString(),
      window_end: new Date(end).toISOString(),
    }),
  });
  expect(await response.json()).toMatchObject({ accepted: 1 });
}

async function written(name: string, content: string): Promise<string> {
  const path = join(directory, 'secrets', name);
  await writeFile(path, content, { mode: 0o600 });
  return path;
}

/** A tenant cluster with its namespace, its control plane and the Secret with its kubeconfig. */
async function addTenantCluster(name: string, kubeconfig: string | undefined): Promise<void> {
  const namespace = `tenant-${name}`;
  const labels = { app: 'vcluster', release: name };
  // Without a kubeconfig it fails only where it says that it has nodes of its own.
  const annotations = { 'meterfeed.io/node-mode': 'private' };
  await host.call('POST', '/api/v1/namespaces', { metadata: { name: namespace, annotations } });
  await host.call('POST', `/apis/apps/v1/namespaces/${namespace}/statefulsets`, {
    metadata: { name, labels },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: 'syncer', image: 'simulated/syncer' }] },
      },
    },
  });
  const status = { observedGeneration: 1, replicas: 1, readyReplicas: 1, availableReplicas: 1 };
  const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}/status`;
  const current = await host.call('GET', path);
  await host.call('PUT', path, { ...current, status });
  if (kubeconfig === undefined) return;
  await host.call('POST', `/api/v1/namespaces/${namespace}/secrets`, {
    metadata: { name: 'svc-kubeconfig' },
    stringData: { config: kubeconfig },
  });
}

/** A node that is Ready, in the tenant cluster's own API. */
async function tenantNode(name: string): Promise<void> {
  const kubectl = createKubectl(tenant.kubectl, tenant.kubeconfigPath);
  await kubectl(
    ['create', '-f', '-'],
    JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name } }),
  );
  await kubectl(['taint', 'nodes', name, 'node.kubernetes.io/not-ready-']);
}

async function failuresOnce(count: number): Promise<ReadonlyMap<string, string>> {
  const read = async () => {
    const status = (await (await fetch(`${operator?.address}/api/v1/status`)).json()) as {
      readonly failed_tenant_apis: readonly {
        readonly tenant_cluster: string;
        readonly reason: string;
      }[];
    };
    return new Map(status.failed_tenant_apis.map((each) => [each.tenant_cluster, each.reason]));
  };
  return until(read, (failed) => failed.size >= count);
}

async function eventsOnce(accepts: (events: string) => boolean): Promise<string> {
  return until(async () => (await fetch(`${operator?.address}/api/v1/events`)).text(), accepts);
}

async function policyCounts(count: number): Promise<void> {
  const total = '{.status.failedTenantAPIs.total}';
  const read = () => host.kubectl(['get', 'mpol', 'default', '-o', `jsonpath=${total}`]);
  await until(read, (text) => text === String(count));
}

/** Asks the operator, which is another process, until the answer is as expected. */
async function until<T>(read: () => Promise<T>, accepts: (value: T) => boolean): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const value = await read();
    if (accepts(value)) return value;
    if (performance.now() > deadline)
      throw new Error(`not in time: ${inspect(value).slice(0, 2000)}`);
    await delay(250);
  }
}

/** Processes that a process has started and that live, as the kernel lists them. */
async function childrenOf(pid: number): Promise<string> {
  const threads = await readdir(`/proc/${pid}/task`);
  const lists = threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, 'utf8'));
  return (await Promise.all(lists)).join('').trim();
}
