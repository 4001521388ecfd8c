import { afterEach, beforeEach, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { type FakePrometheus, startFakePrometheus } from './testing/fake-prometheus.ts';
import { clockAt, historyOf, type PrometheusRun, live } from './testing/life.ts';

const OWN_QUERIES = {
  egressQuery: 'egress{p="{{project}}"}',
  gpuUtilQuery: 'util{i="{{instance}}"}',
  gpuCountQuery: 'count{p="{{project}}"}',
};
const complete = cluster('whole', OWN_QUERIES, { project: 'p1', instance: 'i1' });
const noProject = cluster('no-project', OWN_QUERIES, { instance: 'i2' });
const noInstance = cluster('no-instance', OWN_QUERIES, { project: 'p3' });
const neither = cluster('neither', OWN_QUERIES);

let prometheus: FakePrometheus;
const lives: PrometheusRun[] = [];
beforeEach(async () => {
  prometheus = await startFakePrometheus();
});
afterEach(async () => {
  for (const life of lives.splice(0)) await life.kill();
  await prometheus.close();
});

async function begin(
  options: Pick<Parameters<typeof live>[0], 'clock' | 'history'>,
): Promise<PrometheusRun> {
  const environment = { PROMETHEUS_URL: prometheus.url };
  const life = await live({ ...options, ledger: createMemoryLedger(), environment });
  lives.push(life);
  return life;
}

function linesAbout(life: PrometheusRun, placeholder: string): readonly string[] {
  return life.logs.filter((line) => line.includes(`no {{${placeholder}}}`));
}

test('a tenant cluster without a project costs nothing, and nothing reports that its query was never sent', async () => {
  const clock = clockAt(0);
  const history = historyOf(clock, complete, noProject, noInstance, neither);
  const life = await begin({ clock, history });
  await life.pass(60 * 5 + 31);
  expect(linesAbout(life, 'project')).toStrictEqual([
    expect.stringMatching(
      /tenant_network_egress_gb .*2 tenant clusters.*"tenant-tenant-a-no-project"/,
    ),
    expect.stringMatching(
      /tenant_gpu_utilization .*1 tenant clusters.*"tenant-tenant-a-no-project"/,
    ),
  ]);
  expect(linesAbout(life, 'instance')).toStrictEqual([
    expect.stringMatching(
      /tenant_gpu_utilization .*2 tenant clusters.*"tenant-tenant-a-no-instance"/,
    ),
  ]);
  const leftOut = [
    { metric: 'tenant_network_egress_gb', placeholder: 'project', tenantClusters: 2 },
    { metric: 'tenant_gpu_utilization', placeholder: 'project', tenantClusters: 1 },
    { metric: 'tenant_gpu_utilization', placeholder: 'instance', tenantClusters: 2 },
  ];
  expect(life.metering.report()).toMatchObject({ leftOut });
  expect((await life.metrics.leftOut.get()).values).toMatchObject(
    leftOut.map(({ metric, placeholder, tenantClusters: value }) => ({
      labels: { metric, placeholder },
      value,
    })),
  );
});

test('a tenant cluster that has got its project is still reported as left out', async () => {
  const clock = clockAt(0);
  const history = historyOf(clock, noProject);
  const life = await begin({ clock, history });
  await life.pass(91);
  history.observe([{ ...noProject, project: 'p2' }], clock.now());
  await life.pass(120);
  expect(life.metering.report()).toEqual({ leftOut: [] });
  expect((await life.metrics.leftOut.get()).values).toStrictEqual([]);
  history.observe([noProject], clock.now());
  await life.pass(120);
  expect(linesAbout(life, 'project').filter((line) => line.includes('egress'))).toHaveLength(2);
});

test('a Prometheus that does not answer is in the log alone', async () => {
  const clock = clockAt(0);
  prometheus.answer = () => ({ status: 502, body: 'bad gateway' });
  const life = await begin({ clock, history: historyOf(clock, complete) });
  await life.pass(91);
  expect(life.metering.report()).toMatchObject({ silent: expect.stringContaining('502') });
  prometheus.answer = () => [];
  await life.pass(120);
  expect(life.metering.report()).toEqual({ leftOut: [] });
});
