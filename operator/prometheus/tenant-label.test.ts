import { afterEach, beforeEach, expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import { createConfiguredMeasure, definitionOf } from './configured-metric.ts';
import { readMetricsFile } from './metrics-file.ts';
import {
  type FakePrometheus,
  type FakeRow,
  queryError,
  startFakePrometheus,
} from './testing/fake-prometheus.ts';
import { clockAt, eventsOf, historyOf, type PrometheusRun, live } from './testing/life.ts';

const FILE = `- code: engine_tokens
  unit: tokens
  query: sum by (tenant, model_name) (increase(tokens_total[{{window}}]))
  tenantLabel: tenant
  dimensions: [model_name]`;
const REFUSED = 'tokens_total is too large';

let prometheus: FakePrometheus;
let ledger: Ledger;
const lives: PrometheusRun[] = [];
beforeEach(async () => {
  prometheus = await startFakePrometheus();
  ledger = createMemoryLedger();
});
afterEach(async () => {
  for (const life of lives.splice(0)) await life.kill();
  await prometheus.close();
});

function metric() {
  const read = readMetricsFile(FILE, new Set());
  if (read.kind === 'invalid') throw new Error(read.problems.join());
  const [only] = read.metrics;
  if (only === undefined) throw new Error('no metric');
  return only;
}

/** Meters tenant clusters with the metric of the file alone. */
async function begin(clusters: readonly TenantCluster[]) {
  const clock = clockAt(0);
  const history = historyOf(clock, ...clusters);
  const life = await live({
    clock,
    history,
    ledger,
    environment: { PROMETHEUS_URL: prometheus.url },
    measures: () => [createConfiguredMeasure(metric())],
  });
  lives.push(life);
  return { clock, history, life };
}

function of(tenant: string, name: string, more: Partial<TenantCluster> = {}): TenantCluster {
  return cluster(name, {}, { namespace: `ns-${name}`, tenant, ...more });
}

function row(tenant: string, model: string, value: number | string): FakeRow {
  return [{ tenant, model_name: model }, String(value)];
}

/** `acme m 3`, of every event, sorted. */
async function billed(): Promise<readonly string[]> {
  const events = await eventsOf(ledger);
  return events
    .map(
      ({ tenant, dimensions, quantity }) => `${tenant} ${dimensions?.['model_name']} ${quantity}`,
    )
    .toSorted();
}

async function refusedRows(life: PrometheusRun): Promise<number> {
  const { values } = await life.metrics.refusedRows.get();
  return values.reduce((sum, { value }) => sum + value, 0);
}

test('fifty tenants cost one query a window, and each is billed its own rows', async () => {
  const tenants = Array.from({ length: 50 }, (_, index) => `t${index}`);
  prometheus.answer = () =>
    tenants.flatMap((name, index) => [row(name, 'a', index + 1), row(name, 'b', 0.5)]);
  const { life } = await begin(tenants.map((name) => of(name, name)));
  await life.pass(151);
  expect(prometheus.queries.map(({ query }) => query)).toEqual(
    Array.from({ length: 2 }, () => 'sum by (tenant, model_name) (increase(tokens_total[60s]))'),
  );
  const expected = tenants.flatMap((name, index) => [`${name} a ${index + 1}`, `${name} b 0.5`]);
  expect(await billed()).toEqual([...expected, ...expected].toSorted());
  expect(await refusedRows(life)).toBe(0);
  expect(life.metering.report()).toEqual({ leftOut: [] });
});

test('a tenant with two tenant clusters is billed once, and the events name neither', async () => {
  prometheus.answer = () => [row('acme', 'a', 7)];
  const shared = { project: 'p', tenantClass: 'gold' };
  const { life } = await begin([of('acme', 'z', shared), of('acme', 'b', shared)]);
  await life.pass(91);
  const [event, ...others] = await eventsOf(ledger);
  expect(others).toEqual([]);
  expect(event).toMatchObject({ tenant: 'acme', quantity: '7', unit: 'tokens' });
  expect(event?.dimensions).toEqual({ model_name: 'a' });
  expect(event).not.toHaveProperty('resource_id');
  expect(event).not.toHaveProperty('project');
  expect(definitionOf(metric()).dimensions).toEqual(['region', 'model_name']);
  const question = event && life.metering.question(event);
  expect(question).toEqual({ promql: prometheus.queries[0]?.query });
  prometheus.answer = () => queryError();
  await life.pass(60);
  expect(life.metering.gaps()).toMatchObject([{ scope: 'tenant-ns-b-b' }]);
});

test('a value that is no tenant is billed to nobody and is counted and logged; nothing of it is not', async () => {
  prometheus.answer = () => [
    row('acme', 'a', 1),
    row('other', 'a', 5),
    row('other', 'b', 5),
    row('hidden', 'a', 5),
    row('left', 'a', 0),
    [{ model_name: 'a' }, '2'],
  ];
  const { life } = await begin([of('acme', 'x'), of('hidden', 'y', { excluded: true })]);
  await life.pass(91);
  expect(await billed()).toEqual(['acme a 1']);
  expect(await refusedRows(life)).toBe(4);
  expect(life.logs.filter((line) => line.includes('not charged'))).toEqual(
    ['other', 'hidden', ''].map(
      (value) =>
        `warn [metrics] prometheus: engine_tokens: not charged: no tenant: tenant: "${value}"`,
    ),
  );
});

test('of more than a thousand series of a tenant nothing is billed, and a gap says so; others are', async () => {
  const many = Array.from({ length: 1_001 }, (_, index) => row('acme', `m${index}`, 1));
  prometheus.answer = () => [...many, row('globex', 'a', 2)];
  const { life } = await begin([of('acme', 'x'), of('globex', 'y')]);
  await life.pass(91);
  expect(await billed()).toEqual(['globex a 2']);
  expect(life.metering.gaps()).toMatchObject([
    {
      scope: 'tenant-ns-x-x',
      from: START,
      to: START + 60_000,
      reason:
        'engine_tokens: more than 1000 series in a window: tenant: "acme": sum by fewer labels',
    },
  ]);
  prometheus.answer = () => [...many.slice(1), row('globex', 'a', 2)];
  await life.pass(30);
  expect(life.metering.gaps()).toEqual([]);
  expect(await eventsOf(ledger)).toHaveLength(1_001);
  expect(ledger.stats().conflicts).toBe(0);
});

test('a window without an answer is a gap of every tenant until it has one; one without rows is none', async () => {
  const tenants = Array.from({ length: 50 }, (_, index) => `t${index}`);
  prometheus.answer = ({ time }) =>
    Number(time) * 1000 === START + 60_000 ? queryError(422, 'execution', REFUSED) : [];
  const { life } = await begin(tenants.map((name) => of(name, name)));
  await life.pass(91);
  // No part of it would be smaller, so it is not divided.
  expect(prometheus.queries).toHaveLength(1);
  expect(life.metering.gaps()).toHaveLength(50);
  expect(life.metering.gaps()[0]?.reason).toContain(REFUSED);
  prometheus.answer = ({ time }) =>
    Number(time) * 1000 === START + 60_000 ? tenants.map((name) => row(name, 'a', 1)) : [];
  await life.pass(60);
  expect(life.metering.gaps()).toEqual([]);
  expect(await billed()).toEqual(tenants.map((name) => `${name} a 1`).toSorted());
});

test('two rows of a tenant with the same dimensions are not charged, and others are', async () => {
  prometheus.answer = () => [row('acme', 'a', 1), row('acme', 'a', 2), row('globex', 'a', 3)];
  const { life } = await begin([of('acme', 'x'), of('globex', 'y')]);
  await life.pass(91);
  expect(await billed()).toEqual(['globex a 3']);
  expect(await refusedRows(life)).toBe(1);
});
