import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createConnection, createServer, type Server } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { manifest, webhookDestination } from '../e2e/local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../e2e/local/operator-process.ts';
import { runFiles } from '../e2e/local/run-directory.ts';
import { startReceiver } from '../e2e/receiver/receiver.ts';
import { startSimulator } from '../e2e/simulator/simulator.ts';
import { characters } from './output/characters.ts';
import { bundlePlugin, PLUGIN_FILES } from '../scripts/bundle-plugin.ts';

const cluster = useOwnTestCluster();

const ROOT = join(import.meta.dirname, '..');
const PATIENCE_MS = 90_000;
const TOKEN = 'plugin-canary-5d1e';

let directory = '';
let operator: RunningOperator;
let simulator: Awaited<ReturnType<typeof startSimulator>>;
let receiver: Awaited<ReturnType<typeof startReceiver>>;
let forwarder: Server;
/** Kubeconfigs: of who may read, of who may also change, and of who may do nothing. */
const people = { reader: '', changer: '', nobody: '' };

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-plugin-'));
  await bundlePlugin(join(directory, 'dist'));
  await cluster.kubectl(['apply', '--kustomize', ROOT]);
  const rights = join(ROOT, 'config/components/api-access/rbac.yaml');
  await cluster.kubectl(['apply', '--filename', rights]);
  for (const person of ['reader', 'changer', 'nobody'] as const) {
    people[person] = join(directory, person);
    await writeFile(people[person], await cluster.addUser(person), { mode: 0o600 });
  }
  await bind('meterfeed-api-reader', 'reader');
  await bind('meterfeed-api-operator', 'changer');
  receiver = await startReceiver({
    file: join(directory, 'received.ndjson'),
    secret: 's',
    port: 0,
  });
  simulator = await startSimulator({
    credentials: cluster.credentials,
    truthFile: join(directory, 'truth.ndjson'),
    log: () => {},
  });
  const destination = webhookDestination('invoicing', { url: receiver.url, secret: 's' });
  await cluster.kubectl(['apply', '--filename', '-'], manifest(destination));
  operator = await start({});
  forwarder = await publish(() => Number(new URL(operator.address).port));
}, 4 * PATIENCE_MS);

afterAll(async () => {
  forwarder?.close();
  await operator?.stop();
  await simulator?.stop();
  await receiver?.stop();
  await rm(directory, { recursive: true, force: true });
});

function start(env: Readonly<Record<string, string>>): Promise<RunningOperator> {
  return startOperator({
    files: runFiles(directory),
    kubeconfig: cluster.kubeconfigPath,
    env: { COLLECTION_INTERVAL: '10s', ...env },
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
}

async function bind(role: string, user: string): Promise<void> {
  const binding = ['create', 'rolebinding', `${user}-uses-api`, `--role=${role}`, `--user=${user}`];
  await cluster.kubectl([...binding, '--namespace', 'meterfeed-system']);
}

/**
 * Makes the operator an endpoint of its Service, at an address that the API server accepts as a
 * pod's.
 */
async function publish(port: () => number): Promise<Server> {
  const host = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
  if (host === undefined) throw new Error('network: no address but loopback ones: connect one');
  const server = createServer((client) => {
    const upstream = createConnection(port(), '127.0.0.1');
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) {
      socket.on('error', () => {
        client.destroy();
        upstream.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  await serveAs(host, address.port);
  return server;
}

/** The API server passes requests on to addresses of pods only. */
async function serveAs(host: string, port: number): Promise<void> {
  const namespace = 'meterfeed-system';
  const targetRef = { kind: 'Pod', name: 'meterfeed-0', namespace };
  const container = {
    name: 'operator',
    image: 'meterfeed',
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
  };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: targetRef.name, namespace },
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [container],
    },
  };
  const endpoints = {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: 'meterfeed', namespace },
    subsets: [{ addresses: [{ ip: host, targetRef }], ports: [{ name: 'http', port }] }],
  };
  await cluster.kubectl(['create', '--filename', '-'], manifest([pod]));
  const status = JSON.stringify({ status: { podIP: host, podIPs: [{ ip: host }] } });
  const patch = ['patch', 'pod', targetRef.name, '--namespace', namespace, '--type=merge'];
  await cluster.kubectl([...patch, '--subresource=status', '--patch', status]);
  await cluster.kubectl(['create', '--filename', '-'], manifest([endpoints]));
}

interface Stated {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the bundled program as somebody; standard output is no terminal. */
function meterfeed(
  person: keyof typeof people,
  args: readonly string[],
  env = {},
): Promise<Stated> {
  const program = join(directory, 'dist', PLUGIN_FILES.program);
  const environment = { PATH: process.env['PATH'], HOME: directory, KUBECONFIG: people[person] };
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [program, ...args],
      { env: { ...environment, ...env } },
      (_error, out, err) => resolve({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

/** The lines of a table, as soon as there are rows. */
async function table(...args: readonly string[]): Promise<readonly string[]> {
  const read = async (): Promise<readonly string[]> => {
    const stated = await meterfeed('reader', args);
    expect(stated.err).toBe('');
    return stated.out.trimEnd().split('\n');
  };
  await vi.waitFor(async () => expect((await read()).length).toBeGreaterThan(1), {
    timeout: PATIENCE_MS,
    interval: 1000,
  });
  return read();
}

describe('who may only read', () => {
  test.each([
    [['usage'], /^TENANT +METRIC +QUANTITY +UNIT +LAST 12 HOURS$/],
    [
      ['usage', '--by', 'sku,capacity_type', '--metric', 'tenant_gpu_hours'],
      /^SKU +CAPACITY_\S+ +METRIC/,
    ],
    [['tenants'], /^TENANT +NAME +PLAN +CLUSTERS +STATE +HELD$/],
    [['windows'], /^START +LENGTH +EVENTS +GAPS +NOT MEASURED$/],
    [['destinations'], /^NAME +TYPE +STATUS +BEHIND +PARKED +DEAD$/],
    [['explain'], /^EVENT +TENANT +METRIC +QUANTITY$/],
  ])(
    'does not see %j in 80 columns',
    async (args, header) => {
      const lines = await table(...args);
      expect(lines[0]).toMatch(header);
      expect(lines.filter((line) => characters(line).length > 80)).toStrictEqual([]);
    },
    2 * PATIENCE_MS,
  );

  test(
    'sees a destination as healthy that kubectl get does not, or in other words',
    async () => {
      const misspelt = {
        apiVersion: 'meterfeed.io/v1alpha1',
        kind: 'BillingDestination',
        metadata: { name: 'misspelt' },
        spec: { type: 'noop', metrics: { include: ['tenant_gpu_hour'] } },
      };
      await cluster.kubectl(['apply', '--filename', '-'], manifest([misspelt]));
      const row = /^misspelt +noop +.*UnknownMetrics: "tenant_gpu_hour" in spec.metrics( |$)/m;
      const patience = { timeout: PATIENCE_MS, interval: 1000 };
      const wide = ['destinations', '-o', 'wide'];
      await expect.poll(async () => (await table(...wide)).join('\n'), patience).toMatch(row);
      await expect.poll(() => cluster.kubectl(['get', 'bdest']), patience).toMatch(row);
      await cluster.kubectl(['delete', 'bdest', 'misspelt']);
    },
    3 * PATIENCE_MS,
  );

  test('sees no bars of the last hours', async () => {
    const [, ...rows] = await table('usage');
    for (const row of rows) expect(row).toMatch(/ ·*[▁▂▃▄▅▆▇█][▁▂▃▄▅▆▇█·]*$/);
  });

  test(
    'sees no costs, or the quantities that have no price as free',
    async () => {
      const standard = {
        apiVersion: 'meterfeed.io/v1alpha1',
        kind: 'PriceBook',
        metadata: { name: 'tenant-standard' },
        spec: {
          currency: 'EUR',
          prices: [
            {
              name: 'cpu',
              metric: 'tenant_cpu_core_hours',
              rates: [{ from: '2026-01-01', amount: '1000' }],
            },
          ],
        },
      };
      await table('usage');
      expect((await meterfeed('reader', ['costs'])).out).toContain(
        'No PriceBook has prices for: tenant-standard',
      );
      await cluster.kubectl(['apply', '--filename', '-'], manifest([standard]));
      await vi.waitFor(
        async () => expect((await table('costs')).join('\n')).toMatch(/Total: [\d.]+ EUR$/),
        { timeout: PATIENCE_MS, interval: 1000 },
      );
      const lines = await table('costs', '-o', 'wide');
      expect(lines[0]).toMatch(/^TENANT +METRIC +QUANTITY +UNIT +UNPRICED +COST +CURRENCY$/);
      const cpu = lines.filter((line) => line.includes('tenant_cpu_core_hours'));
      for (const line of cpu) expect(line).toMatch(/ [\d.]+ +core-hours +\d+\.\d\d +EUR$/);
      const memory = lines.filter((line) => line.includes('tenant_memory_gb'));
      for (const line of memory) expect(line).toMatch(/ ([\d.]+) +gib-hours +\1 +EUR$/);
      expect([cpu.length > 0, memory.length > 0]).toStrictEqual([true, true]);
    },
    2 * PATIENCE_MS,
  );

  test('sees no gaps, and gets no message about it', async () => {
    const { code, out } = await meterfeed('reader', [
      'gaps',
      '--from',
      '2020-01-01',
      '--to',
      '2020-01-02',
    ]);
    expect([code, out]).toStrictEqual([0, 'No gaps in this range: everything was measured.\n']);
  });

  test('gets other numbers for programs than the API has', async () => {
    await table('usage');
    const range = ['--from', '2026-01-01', '--to', new Date(Date.now() - 20_000).toISOString()];
    const api = await (
      await fetch(`${operator.address}/api/v1/usage?from=2026-01-01&to=${range[3]}&group_by=tenant`)
    ).text();
    const as = async (format: string): Promise<string> =>
      (await meterfeed('reader', ['usage', ...range, '-o', format])).out;
    const plain = (text: string): string => text.replaceAll(/\s/g, '');
    expect(plain(await as('json'))).toBe(plain(api));
    expect(parse(await as('yaml'))).toStrictEqual(JSON.parse(api));
    const csv = await (
      await fetch(
        `${operator.address}/api/v1/usage?from=2026-01-01&to=${range[3]}&group_by=tenant&format=csv`,
      )
    ).text();
    const [header = '', ...rows] = csv.trim().split('\r\n');
    const cells = (row: string): string => row.split(',').slice(0, 4).toSorted().join();
    const [, ...given] = (await as('csv')).trim().split('\r\n');
    expect(header).toBe('tenant,metric,unit,quantity,events');
    expect(given.map(cells)).toStrictEqual(rows.map(cells));
  });

  test('finds no event to explain, or no objects behind it', async () => {
    // Its pods run on shared nodes: behind the core-hours of others stand whole nodes.
    const acme = ['--tenant', 'acme', '--metric', 'tenant_cpu_core_hours'];
    const lines = await table('explain', ...acme);
    const id = lines[1]?.split(' ')[0] ?? '';
    const { code, out } = await meterfeed('reader', ['explain', id]);
    expect(code).toBe(0);
    expect(out).toMatch(/tenant_cpu_core_hours {2}[\d.]+ core-hours\n/);
    expect(out).toMatch(/\nKIND +OBJECT +FROM +LASTED +QUANTITY +NODE\nPod +\S+/);
    expect(out.split('\n').filter((line) => characters(line).length > 80)).toStrictEqual([]);
  });

  test('sees one tenant without its tenant clusters', async () => {
    const [, row = ''] = await table('tenants', '-o', 'wide');
    const { out } = await meterfeed('reader', ['tenants', row.split(' ')[0] ?? '']);
    expect(out).toMatch(/^Tenant: /);
    expect(out).toMatch(/\nTENANT CLUSTER +NAMESPACE +NAME +EXCLUDED +SINCE\n\S+/);
  });

  test('sends something', async () => {
    const { code, err } = await meterfeed('reader', ['replay', 'invoicing', '--all']);
    expect(code).toBe(1);
    expect(err).toMatch(/cannot create resource "services\/proxy"/);
    expect(err).toMatch(/meterfeed-api-operator/);
  });

  test('does not see dead letters', async () => {
    const { out } = await meterfeed('reader', ['replay', 'invoicing']);
    expect(out).toBe('No dead letters: everything was accepted.\n');
  });

  test('gets no completion of names, options and formats', async () => {
    const words = async (...args: readonly string[]): Promise<readonly string[]> =>
      (await meterfeed('reader', ['__complete', ...args])).out.trimEnd().split('\n');
    expect(await words('de')).toStrictEqual(['destinations', ':4']);
    expect(await words('replay', '')).toStrictEqual(['invoicing', ':4']);
    expect(await words('usage', '--metric', 'tenant_gpu_h')).toStrictEqual([
      'tenant_gpu_hours',
      ':4',
    ]);
    expect(await words('usage', '-o', 'j')).toStrictEqual(['json', ':4']);
    expect(await words('usage', '--met')).toStrictEqual(['--metric', ':4']);
    expect((await words('usage', '')).length).toBeGreaterThan(1);
  });
});

test('a user without rights reads something, or does not learn what is missing', async () => {
  const { code, out, err } = await meterfeed('nobody', ['usage']);
  expect([code, out]).toStrictEqual([1, '']);
  expect(err).toMatch(/"nobody" cannot get resource "services\/proxy"/);
  expect(err).toMatch(/meterfeed-api-reader/);
});

test.each([
  [['usage', '--namespace', 'elsewhere'], /not found|forbidden/i],
  [['usage', '--context', 'elsewhere'], /no such context: "elsewhere"/],
  [['usage', '--url', 'ftp://x'], /not an http or https address/],
  [['usage', '--by', 'tenannt'], /tenannt/],
])('%j fails without a word', async (args, message) => {
  const { out, err } = await meterfeed('changer', args);
  expect(out + err).toMatch(message);
});

test.each([
  [['usagee'], /no such command: "usagee"/],
  [['usage', '-o', 'xml'], /no such format: --output: "xml"/],
  [['usage', '--metrik', 'x'], /metrik/],
  [['replay'], /missing: DESTINATION/],
])('%j is taken', async (args, message) => {
  const { code, err } = await meterfeed('reader', args);
  expect(code).toBe(2);
  expect(err).toMatch(message);
});

test(
  'with API_TOKEN the token does not pass the API server, or nothing can be sent again',
  async () => {
    await operator.stop();
    operator = await start({ API_TOKEN: TOKEN });
    const without = await meterfeed('changer', ['destinations']);
    expect([without.code, without.out]).toStrictEqual([1, '']);
    expect(without.err).toMatch(/METERFEED_TOKEN/);
    const env = { METERFEED_TOKEN: TOKEN };
    expect((await meterfeed('changer', ['destinations'], env)).out).toMatch(
      /^invoicing +webhook +/m,
    );
    const replayed = await meterfeed('changer', ['replay', 'invoicing', '--all'], env);
    expect(replayed.out).toMatch(/^REPLAYED +STILL REJECTED +PENDING\n +0 +0 +0\n$/);
    const file = join(directory, 'token');
    await writeFile(file, `${TOKEN}\n`);
    const direct = ['destinations', '--url', operator.address, '--token-file', file];
    expect((await meterfeed('nobody', direct)).out).toMatch(/^invoicing /m);
  },
  PATIENCE_MS,
);

test('the manifest for krew names another archive than the one beside it', async () => {
  const text = await readFile(join(directory, 'dist', PLUGIN_FILES.manifest), 'utf8');
  const { spec } = parse(text) as {
    spec: { platforms: readonly { sha256: string; bin: string }[] };
  };
  const archive = await readFile(join(directory, 'dist', PLUGIN_FILES.archive));
  expect(spec.platforms).toMatchObject([
    { sha256: createHash('sha256').update(archive).digest('hex'), bin: PLUGIN_FILES.program },
  ]);
});
