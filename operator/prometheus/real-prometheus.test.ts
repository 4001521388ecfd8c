import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../e2e/control-plane/ports.ts';
import { type HistoricalSeries, refreshed, writeHistory } from '../../e2e/prometheus/history.ts';
import { type PrometheusPrograms, requirePrometheus } from '../../e2e/prometheus/programs.ts';
import { type PrometheusServer, startPrometheusServer } from '../../e2e/prometheus/server.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import type { UsageEvent } from '../model/event.ts';
import { builtInQueries } from './built-in-queries.ts';
import { createConfiguredMeasure } from './configured-metric.ts';
import { loadMetricsFile } from './metrics-file-watch.ts';
import { renderQuery, type QuerySubject } from './plan-query.ts';
import { builtInMeasures, clockAt, eventsOf, historyOf, live } from './testing/life.ts';

const H100 = 'NVIDIA H100 80GB HBM3';
const A100 = 'NVIDIA A100-SXM4-40GB';
const MINUTES = 6;

/** Exporters refresh every half minute. Scrapes are twice as frequent. */
const every30 = (truth: (at: number) => number): HistoricalSeries['valueAt'] =>
  refreshed(30, truth);
const constant = (value: number): HistoricalSeries['valueAt'] => every30(() => value);

function gpu(
  name: string,
  labels: Readonly<Record<string, string>>,
  value: number,
): HistoricalSeries {
  return { name, labels: { Hostname: 'n1', modelName: H100, ...labels }, valueAt: constant(value) };
}

function sent(
  namespace: string,
  pod: string,
  bytesPerSecond: number,
  more: Readonly<Record<string, string>> = {},
): HistoricalSeries {
  const labels = { namespace, pod, interface: 'eth0', id: `/kubepods/${pod}`, ...more };
  return {
    name: 'container_network_transmit_bytes_total',
    labels,
    valueAt: every30((at) => 1_000_000 + bytesPerSecond * at),
  };
}

function tokens(tenant: string, valueAt: HistoricalSeries['valueAt']): HistoricalSeries {
  const labels = { tenant, model_name: 'llama', engine: '0' };
  return { name: 'vllm:generation_tokens_total', labels, valueAt };
}

/** Labels of the GPU exporter when its target's labels win over its own. */
const exported = (namespace: string): Readonly<Record<string, string>> => ({
  namespace: 'gpu-operator',
  pod: 'dcgm-exporter-x',
  exported_namespace: namespace,
});

const MIG = { UUID: 'GPU-mig', GPU_I_PROFILE: '1g.10gb' };

const SERIES: readonly HistoricalSeries[] = [
  // Tenant a: one pod, scraped by two jobs; one on the host's network; its control plane; the root
  // series.
  sent('tenant-a', 'web-x-default-x-a', 1_000),
  sent('tenant-a', 'web-x-default-x-a', 1_000, { job: 'again', instance: 'n1' }),
  sent('tenant-a', 'agent-x-default-x-a', 100_000),
  {
    name: 'kube_pod_info',
    labels: { namespace: 'tenant-a', pod: 'agent-x-default-x-a', host_network: 'true' },
    // Absent most of the time, like the information series of a deleted pod.
    valueAt: (at) => (at < 90 ? 1 : undefined),
  },
  sent('tenant-a', 'a-0', 50_000),
  sent('tenant-a', 'a-etcd-0', 50_000),
  sent('', '', 9_000_000),
  // A tenant cluster whose syncer maps namespaces one to one: names there are the tenant's own.
  sent('tenant-s', 's-0', 50_000),
  sent('tenant-s', 'web-x-default-x-s', 1_000),
  sent('s-dev', 's-0', 2_000),
  sent('s-dev', 'agent', 100_000),
  sent('s-prod', 's-api-7d9c8b5f6-x2x4z', 4_000),
  {
    name: 'kube_pod_info',
    labels: { namespace: 's-dev', pod: 'agent', host_network: 'true' },
    valueAt: () => 1,
  },
  gpu('DCGM_FI_DEV_GPU_UTIL', { ...exported('s-dev'), UUID: 'S-1' }, 30),
  gpu('DCGM_FI_DEV_GPU_UTIL', { namespace: 's-prod', pod: 'p', UUID: 'S-2' }, 60),
  // A pod of tenant b that claims to be tenant a's.
  sent('tenant-b', 'liar', 0, { exported_namespace: 'tenant-a' }),
  sent('tenant-b', 'job-x-default-x-b', 0),
  // Tenant a: a full GPU, and two MIG instances of another. Old exporters report 0 for instances.
  gpu('DCGM_FI_DEV_GPU_UTIL', { ...exported('tenant-a'), UUID: 'GPU-full' }, 50),
  gpu('DCGM_FI_PROF_GR_ENGINE_ACTIVE', { ...exported('tenant-a'), UUID: 'GPU-full' }, 0.9),
  gpu('DCGM_FI_PROF_GR_ENGINE_ACTIVE', { ...exported('tenant-a'), ...MIG, GPU_I_ID: '7' }, 0.5),
  gpu('DCGM_FI_PROF_GR_ENGINE_ACTIVE', { ...exported('tenant-a'), ...MIG, GPU_I_ID: '8' }, 0.2),
  gpu('DCGM_FI_DEV_GPU_UTIL', { ...exported('tenant-a'), ...MIG, GPU_I_ID: '8' }, 0),
  // Power repeats on every instance of a GPU.
  gpu('DCGM_FI_DEV_POWER_USAGE', { ...exported('tenant-a'), ...MIG, GPU_I_ID: '7' }, 300),
  gpu('DCGM_FI_DEV_POWER_USAGE', { ...exported('tenant-a'), ...MIG, GPU_I_ID: '8' }, 300),
  gpu('DCGM_FI_DEV_POWER_USAGE', { ...exported('tenant-a'), UUID: 'GPU-full' }, 700),
  // Tenant b: an exporter whose labels are honoured.
  gpu('DCGM_FI_DEV_GPU_UTIL', { namespace: 'tenant-b', pod: 'p', UUID: 'B', modelName: A100 }, 25),
  // A tenant cluster with private nodes: an external label names its telemetry from inside.
  gpu('DCGM_FI_DEV_GPU_UTIL', { vcluster: 'own', namespace: 'ml', pod: 'p', UUID: 'O' }, 80),
  sent('ml', 'p', 2_000, { vcluster: 'own' }),
  // Two vLLM servers, 2 and 10 tokens a second; the first one restarts.
  tokens('acme', (at) => 2 * (at < 150 ? 1_000 + at : at - 150)),
  tokens('globex', (at) => 10 * at),
  tokens('nobody', (at) => at),
  // The platform's fleet observability.
  ...['one', 'two'].flatMap((project, index) => {
    const labels = {
      vcluster_platform_instance: 'same',
      vcluster_platform_project: project,
    };
    return [
      sent('web', `p-${project}`, 1_000 * (index + 1), labels),
      gpu('DCGM_FI_DEV_GPU_UTIL', { ...labels, UUID: project }, 10 * (index + 1)),
    ];
  }),
];

let programs: PrometheusPrograms;
let directory: string;
let server: PrometheusServer;
beforeAll(async () => {
  programs = await requirePrometheus();
  directory = await mkdtemp(join(tmpdir(), 'prometheus-'));
  await writeHistory({
    programs,
    directory,
    start: START,
    seconds: MINUTES * 60,
    scrapeSeconds: 15,
    series: SERIES,
  });
  server = await startPrometheusServer({ programs, directory, port: await freePort() });
}, 60_000);
afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Runs metering against the server for some windows. */
async function meter(
  clusters: readonly TenantCluster[],
  environment: Readonly<Record<string, string>> = {},
  measures = builtInMeasures,
): Promise<readonly UsageEvent[]> {
  const clock = clockAt(0);
  const ledger = createMemoryLedger();
  const life = await live({
    ledger,
    clock,
    history: historyOf(clock, ...clusters),
    environment: { PROMETHEUS_URL: server.url, ...environment },
    measures,
  });
  await life.pass(MINUTES * 60);
  await life.stop();
  expect(life.metering.gaps()).toEqual([]);
  return eventsOf(ledger);
}

function of(events: readonly UsageEvent[], metric: string, id: string): readonly UsageEvent[] {
  return events.filter((event) => event.metric === metric && event.resource_id === id);
}

function quantities(events: readonly UsageEvent[]): readonly number[] {
  return events.map(({ quantity }) => Number(quantity));
}

const EGRESS = 'tenant_network_egress_gb';
const UTILIZATION = 'tenant_gpu_utilization';

test.each([
  ['queried alone', []],
  ['queried with another', [cluster('a')]],
] as const)(
  'U17: what is in namespaces that a syncer maps is the tenant cluster’s: %s',
  async (_, others) => {
    const syncedNamespaces = ['s-dev', 's-prod'].map((name) => ({ name, createdAt: 0 }));
    const synced = cluster('s', {}, { namespace: 'tenant-s', syncedNamespaces });
    const events = await meter([synced, ...others]);
    const [first = 0] = quantities(of(events, EGRESS, synced.id));
    expect(first * 2 ** 30).toBeCloseTo(60 * 7_000, -1);
    expect(of(events, UTILIZATION, synced.id)[0]?.properties).toEqual({
      avg_utilization_pct: 45,
      gpu_devices: 2,
    });
  },
);

describe('the built-in queries on a real server', () => {
  let events: readonly UsageEvent[];
  const own = cluster(
    'own',
    {
      egressQuery:
        'sum(increase(container_network_transmit_bytes_total{vcluster="{{vcluster}}"}[{{window}}]))',
    },
    { namespace: 'tenant-own' },
  );
  beforeAll(async () => {
    const b = cluster('b', {}, { namespace: 'tenant-b' });
    events = await meter([cluster('a'), b, own]);
  });

  test('U14: egress is that of the tenant’s pods: once each, without the host’s network, control plane and forgeries', () => {
    const ofA = quantities(of(events, EGRESS, 'tenant-tenant-a-a'));
    expect(ofA).toHaveLength(MINUTES - 1);
    for (const gib of ofA) expect(gib * 2 ** 30).toBeCloseTo(60_000, 0);
    expect(of(events, EGRESS, 'tenant-tenant-b-b')).toEqual([]);
  });

  test('U10, U13: utilisation falls back to the profiling field in MIG mode, under either spelling of the namespace', () => {
    const [first, ...rest] = of(events, UTILIZATION, 'tenant-tenant-a-a');
    expect(rest).toHaveLength(MINUTES - 2);
    expect(first).toMatchObject({
      // (50 + 50 + 20) ÷ 3 percent of a minute
      quantity: '0.666666667',
      dimensions: { gpu_type: 'NVIDIA-H100-80GB-HBM3' },
      properties: { avg_utilization_pct: 40, gpu_devices: 3 },
    });
    expect(of(events, UTILIZATION, 'tenant-tenant-b-b')[0]).toMatchObject({
      quantity: '0.416666667',
      dimensions: { gpu_type: 'NVIDIA-A100-SXM4-40GB' },
      properties: { avg_utilization_pct: 25, gpu_devices: 1 },
    });
  });

  test('U16: a tenant cluster with private nodes is selected by the external label that names it', () => {
    expect(of(events, UTILIZATION, own.id)[0]?.properties).toEqual({
      avg_utilization_pct: 80,
      gpu_devices: 1,
    });
    const [first = 0] = quantities(of(events, EGRESS, own.id));
    expect(first * 2 ** 30).toBeCloseTo(120_000, 0);
  });
});

test('U15: the platform’s preset selects by instance and project together', async () => {
  const one = cluster('x', {}, { instance: 'same', project: 'one' });
  const two = cluster('x', {}, { namespace: 'tenant-x', instance: 'same', project: 'two' });
  const stranger = cluster('y', {}, { namespace: 'tenant-y' });
  const preset = { PROMETHEUS_PRESET: 'vcluster-platform' };
  const events = await meter([one, two, stranger], preset);
  expect(of(events, UTILIZATION, one.id)[0]?.properties).toMatchObject({ avg_utilization_pct: 10 });
  expect(of(events, UTILIZATION, two.id)[0]?.properties).toMatchObject({ avg_utilization_pct: 20 });
  const [first = 0] = quantities(of(events, EGRESS, two.id));
  expect(first * 2 ** 30).toBeCloseTo(120_000, 0);
  expect(events.filter(({ resource_id }) => resource_id === stranger.id)).toEqual([]);
});

test('U11: a configured energy metric counts the power of each GPU once, times the seconds', async () => {
  const file = join(import.meta.dirname, '../../docs/reference/prometheus-metrics.yaml');
  const loaded = await loadMetricsFile(file, new Set());
  const metrics = loaded.kind === 'metrics' ? loaded.metrics : [];
  const energy = metrics.filter(({ code }) => code === 'tenant_gpu_energy_joules');
  const events = await meter([cluster('a')], {}, () => energy.map(createConfiguredMeasure));
  expect(events[0]).toMatchObject({
    metric: 'tenant_gpu_energy_joules',
    quantity: '60000',
    unit: 'joules',
    sku: H100,
    dimensions: { model_name: H100 },
  });
});

test('the documented query for all tenants bills each its tokens, also where the server restarts', async () => {
  const file = join(import.meta.dirname, '../../docs/reference/prometheus-metrics.yaml');
  const loaded = await loadMetricsFile(file, new Set());
  const metrics = loaded.kind === 'metrics' ? loaded.metrics : [];
  const tokens = metrics.filter(({ code }) => code === 'vllm_generation_tokens');
  const clusters = ['acme', 'globex'].map((tenant) => cluster(tenant, {}, { tenant }));
  const events = await meter(clusters, {}, () => tokens.map(createConfiguredMeasure));
  const sumOf = (tenant: string): number =>
    quantities(events.filter((event) => event.tenant === tenant)).reduce((a, b) => a + b, 0);
  // A counter that begins again at 0 loses what came after the last scrape, and never goes below 0.
  expect(sumOf('acme')).toBeGreaterThan(0.9 * 600);
  expect(sumOf('acme')).toBeLessThanOrEqual(600);
  expect(sumOf('globex')).toBeCloseTo(3_000, -2);
  expect(new Set(events.map(({ dimensions }) => dimensions?.['model_name']))).toEqual(
    new Set(['llama']),
  );
});

describe('a tenant’s name', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }),
    fc
      .array(fc.constantFrom('"', "'", '`', '\\', '\n', '}', '{', ')', '.*', '$1', '|', '#', 'a'), {
        minLength: 1,
        maxLength: 8,
      })
      .map((parts) => parts.join('')),
  );
  const window = { start: START, end: START + 60_000 };

  const evaluate = async (
    query: string,
  ): Promise<{ readonly data: { readonly result: unknown } }> => {
    const body = new URLSearchParams({ query, time: String(START / 1000) });
    const answer = await fetch(`${server.url}/api/v1/query`, { method: 'POST', body });
    return (await answer.json()) as { readonly data: { readonly result: unknown } };
  };
  const filled = (template: string, tenant: string): string => {
    const subject: QuerySubject = { id: 'i', namespace: 'n', name: 'v', tenant };
    const rendered = renderQuery(template, subject, window);
    return rendered.kind === 'query' ? rendered.promql : rendered.kind;
  };

  test.each(['"{{tenant}}"', `'{{tenant}}'`, '`{{tenant}}`'])(
    'D.7: comes out of %s as it is, whatever is in it',
    async (template) => {
      await fc.assert(
        fc.asyncProperty(hostile, async (tenant) => {
          const { data } = await evaluate(filled(template, tenant));
          expect(data.result).toEqual([expect.any(Number), tenant.toWellFormed()]);
        }),
        { numRuns: 60 },
      );
    },
  );

  test.each(['"{{tenant}}"', '`{{tenant}}`'])(
    'D.7: matches itself and nothing else as a regular expression in %s',
    async (literal) => {
      const query = `label_replace(vector(1), "a", ${literal}, "", "")`;
      await fc.assert(
        fc.asyncProperty(hostile, async (tenant) => {
          const same = `label_replace(${query}, "hit", "yes", "a", ${literal})`;
          const { data } = await evaluate(filled(same, tenant));
          expect(data.result).toMatchObject([{ metric: { hit: 'yes', a: tenant.toWellFormed() } }]);
          const other = `label_replace(label_replace(vector(1), "a", "other", "", ""), "hit", "yes", "a", ${literal})`;
          expect((await evaluate(filled(other, tenant))).data.result).toMatchObject([
            { metric: { a: 'other' } },
          ]);
          expect(JSON.stringify(await evaluate(filled(other, tenant)))).not.toContain('"hit"');
        }),
        { numRuns: 40 },
      );
    },
  );
});

describe('promtool test rules', () => {
  test('agrees with the built-in queries', async () => {
    const rules = join(directory, 'rules.json');
    const file = join(directory, 'rules-test.json');
    const about = { meterControlPlane: false, onHost: true, uniqueName: true };
    const queries = builtInQueries('default', about);
    const subject: QuerySubject = { id: 'i', namespace: 'tenant-a', name: 'a', tenant: 't' };
    const record = (name: string, template: string): object => {
      const rendered = renderQuery(template, subject, { start: START, end: START + 60_000 });
      return { record: name, expr: rendered.kind === 'query' ? rendered.promql : rendered.kind };
    };
    const group = {
      name: 'built-in',
      rules: [
        record('egress', queries.egress),
        record('utilization', queries.utilization),
        record('devices', queries.devices),
      ],
    };
    const c = 'container_network_transmit_bytes_total';
    const u = 'DCGM_FI_DEV_GPU_UTIL';
    const g = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE';
    const own = 'exported_namespace="tenant-a",namespace="gpu-operator",modelName="H"';
    const expectOne = (metric: string, value: number, labels = ''): object => ({
      expr: metric,
      eval_time: '1m',
      exp_samples: [{ labels: `${metric}${labels}`, value }],
    });
    const inputs: readonly (readonly [string, string])[] = [
      [`${c}{namespace="tenant-a",pod="p",id="1"}`, '1000 2000 500 1500 2500'],
      [`${c}{namespace="tenant-a",pod="h",id="2"}`, '0 1000000 2000000 3000000 4000000'],
      [`${c}{namespace="tenant-a",pod="a-7d9c8b5f6-x2x4z",id="3"}`, '0 1000 2000 3000 4000'],
      ['kube_pod_info{namespace="tenant-a",pod="h",host_network="true"}', '1 1 stale'],
      [`${u}{${own},UUID="1",pod="p"}`, '40 40 60 60 60'],
      [`${u}{${own},UUID="1",pod="q"}`, '40 40 60 60 60'],
      [`${u}{${own},UUID="2",GPU_I_ID="1"}`, '0 0 0 0 0'],
      [`${g}{${own},UUID="2",GPU_I_ID="1"}`, '0.5 0.5 0.5 0.5 0.5'],
      [`${g}{${own},UUID="2",GPU_I_ID="2"}`, '0.1 0.1 0.1 0.1 0.1'],
      [`${g}{${own},UUID="1"}`, '0.9 0.9 0.9 0.9 0.9'],
    ];
    const tests = [
      {
        interval: '15s',
        input_series: inputs.map(([series, values]) => ({ series, values })),
        promql_expr_test: [
          expectOne('egress', 3500),
          expectOne('utilization', 37.333333333333336, '{modelName="H"}'),
          expectOne('devices', 3, '{modelName="H"}'),
        ],
      },
    ];
    await writeFile(rules, JSON.stringify({ groups: [group] }));
    const evaluation_interval = '15s';
    await writeFile(file, JSON.stringify({ rule_files: [rules], evaluation_interval, tests }));
    const run = promisify(execFile)(programs.promtool, ['test', 'rules', file]);
    const outcome = await run.catch((error: { stdout: string; stderr: string }) => error);
    expect(`${outcome.stdout}${outcome.stderr}`).toContain('SUCCESS');
  });
});
