import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import type { UsageEvent } from '../model/event.ts';
import { type FakePrometheus, queryError, startFakePrometheus } from './testing/fake-prometheus.ts';
import { brief, clockAt, eventsOf, historyOf, type PrometheusRun, live } from './testing/life.ts';

const GIB = 2 ** 30;

/** Queries that only name their tenant cluster. */
const QUERIES = {
  egressQuery: 'egress{n="{{namespace}}"}',
  gpuUtilQuery: 'util{n="{{namespace}}"}',
};
const a = cluster('a', QUERIES);
const b = cluster('b', QUERIES, { namespace: 'tenant-b' });

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

type Options = Omit<Parameters<typeof live>[0], 'ledger' | 'environment'>;

async function begin(options: Options): Promise<PrometheusRun> {
  const environment = { PROMETHEUS_URL: prometheus.url };
  const life = await live({ ...options, ledger, environment });
  lives.push(life);
  return life;
}

function egressOf(events: readonly UsageEvent[]): string[] {
  return events.filter(({ metric }) => metric === 'tenant_network_egress_gb').map(brief);
}

function at(seconds: number): number {
  return START + seconds * 1000;
}

/** Bytes for egress, nothing for utilisation. */
function gibibytes(count: number): FakePrometheus['answer'] {
  return ({ query }) => (query.startsWith('egress') ? [[{}, String(count * GIB)]] : []);
}

describe('a window', () => {
  test('U06: is queried at its end, for each tenant cluster, once its last samples are in', async () => {
    const clock = clockAt(0);
    prometheus.answer = gibibytes(2);
    const egressQuery =
      'x{ns="{{namespace}}",w="{{window}}",s="{{window_seconds}}",t="{{tenant}}"} + y[{{window}}]';
    const requested = cluster('a', { egressQuery, gpuUtilQuery: 'none' });
    const life = await begin({ clock, history: historyOf(clock, requested) });
    await life.pass(60 + 29);
    expect(prometheus.queries).toEqual([]);
    await life.pass(1);
    expect(prometheus.queries).toMatchObject([
      {
        method: 'POST',
        url: '/api/v1/query',
        query: `x{ns="tenant-a",w="60s",s="60",t="${a.tenant}"} + y[60s]`,
        time: String(at(60) / 1000),
      },
    ]);
    await life.pass(600);
    expect(prometheus.queries).toHaveLength(11);
  });

  test('is one event of each metric, with the identity that every event has', async () => {
    const clock = clockAt(0);
    const billed = cluster('a', QUERIES, {
      tenant: 'acme',
      project: 'p1',
      tenantClass: 'gov',
      createdAt: 0,
    });
    prometheus.answer = ({ query }) =>
      query.startsWith('egress')
        ? [[{}, '1610612736']]
        : [[{ modelName: 'NVIDIA H100 80GB HBM3' }, '50']];
    const life = await begin({ clock, history: historyOf(clock, billed) });
    await life.pass(91);
    const events = await eventsOf(ledger);
    expect(events).toMatchObject([
      {
        tenant: 'acme',
        metric: 'tenant_network_egress_gb',
        quantity: '1.5',
        unit: 'gib',
        window_start: '2026-03-01T12:00:00Z',
        window_end: '2026-03-01T12:01:00Z',
        region: 'here',
        project: 'p1',
        resource_id: 'tenant-tenant-a-a',
        dimensions: { tenant_class: 'gov', tenant_cluster: 'tenant-tenant-a-a' },
        source: 'collector',
      },
      {
        metric: 'tenant_gpu_utilization',
        quantity: '0.833333333',
        unit: 'util-hours',
        dimensions: { gpu_type: 'NVIDIA-H100-80GB-HBM3' },
        properties: { avg_utilization_pct: 50 },
      },
    ]);
    expect(events[0]?.properties).toBeUndefined();
    expect(events.map((event) => life.metering.question(event))).toEqual([
      { promql: 'egress{n="tenant-a"}' },
      { promql: 'util{n="tenant-a"}' },
    ]);
  });

  test('U03, U04: with no result, or none that can be charged, is no event and no gap', async () => {
    const clock = clockAt(0);
    const values = ['', 'NaN', '+Inf', '-Inf', '-5', '0', '-0', '1e999'];
    prometheus.answer = ({ query, time }) => {
      const value = values[(Number(time) * 1000 - START) / 60_000 - 1] ?? '';
      return value === '' || !query.startsWith('egress') ? [] : [[{}, value]];
    };
    const life = await begin({ clock, history: historyOf(clock, a) });
    await life.pass(60 * values.length + 31);
    expect(await eventsOf(ledger)).toEqual([]);
    expect(life.metering.gaps()).toEqual([]);
    expect(prometheus.queries).toHaveLength(2 * values.length);
    expect(life.logs.filter((line) => line.includes('not charged'))).toHaveLength(5);
  });

  test('U08: costs no request for what is switched off, here or by a TenantOverride', async () => {
    const clock = clockAt(0);
    const without = cluster('b', { egressQuery: 'none' }, { namespace: 'tenant-b' });
    const history = historyOf(clock, cluster('a', { gpuUtilQuery: 'none' }), without);
    const life = await begin({ clock, history });
    await life.pass(91);
    expect(prometheus.queries.map(({ query }) => query.slice(0, 60))).toEqual([
      expect.stringContaining('max by (namespace, pod, interface, id)'),
      expect.stringContaining('avg by (modelName)'),
      expect.stringContaining('count by (modelName)'),
    ]);
  });

  test('is billed to whom the tenant cluster belonged at its end, and excluded ones to nobody', async () => {
    const clock = clockAt(0);
    const mine = cluster('a', { egressQuery: 'egress', gpuUtilQuery: 'none' });
    const history = historyOf(clock, mine, { ...b, excluded: true });
    prometheus.answer = gibibytes(1);
    const life = await begin({ clock, history });
    await life.pass(30);
    history.observe([{ ...mine, tenant: 'buyer' }], clock.now());
    await life.pass(40);
    // The window is over and not queried yet.
    history.observe([{ ...mine, tenant: 'next-buyer' }], clock.now());
    await life.pass(21);
    expect(egressOf(await eventsOf(ledger))).toEqual(['12:01:00 1 buyer']);
  });
});

describe('tenant clusters that share a namespace', () => {
  test('are not each charged for all of it: who sent what is unknown', async () => {
    const clock = clockAt(0);
    const sharing = [cluster('a'), cluster('z')];
    prometheus.answer = () => [[{}, String(GIB)]];
    const history = historyOf(clock, ...sharing, b);
    const life = await begin({ clock, history });
    await life.pass(91);
    expect(egressOf(await eventsOf(ledger))).toEqual(['12:01:00 1 tenant-tenant-b-b']);
    expect(life.metering.gaps()[0]).toMatchObject({
      source: 'prometheus',
      scope: 'tenant-tenant-a-a',
      reason: expect.stringContaining('several tenant clusters share the namespace "tenant-a"'),
    });
  });

  test('are charged by a query that separates them', async () => {
    const clock = clockAt(0);
    const own = { egressQuery: 'egress{v="{{vcluster}}"}', gpuUtilQuery: 'none' };
    prometheus.answer = ({ query }) => [[{}, String((query.includes('"a"') ? 1 : 2) * GIB)]];
    const history = historyOf(clock, cluster('a', own), cluster('z', own));
    const life = await begin({ clock, history });
    await life.pass(91);
    expect(egressOf(await eventsOf(ledger))).toEqual([
      '12:01:00 1 tenant-tenant-a-a',
      '12:01:00 2 tenant-tenant-a-z',
    ]);
  });
});

describe('what Prometheus can still answer', () => {
  test('after a downtime is queried for every missed window, and marked as backfilled', async () => {
    const clock = clockAt(0);
    const history = historyOf(clock, cluster('a', { egressQuery: 'egress', gpuUtilQuery: 'none' }));
    prometheus.answer = ({ time }) => [[{}, String((Number(time) - START / 1000) * GIB)]];
    const first = await begin({ clock, history });
    await first.pass(91);
    await first.kill();
    await clock.advance(600_000);
    const second = await begin({ clock, history });
    await second.pass(1);
    const events = await eventsOf(ledger);
    expect(events.map(({ quantity }) => Number(quantity))).toEqual(
      Array.from({ length: 11 }, (_, index) => 60 * (index + 1)),
    );
    expect(events.map(({ properties }) => properties?.['backfilled'] ?? false)).toEqual([
      false,
      ...Array.from({ length: 10 }, () => true),
    ]);
  });

  test('U05: after a failed query is retried until it is answered, once, and is a gap meanwhile', async () => {
    const clock = clockAt(0);
    const history = historyOf(clock, a, b);
    let broken = true;
    prometheus.answer = (requested) =>
      broken && requested.query.includes('tenant-a') && requested.query.startsWith('egress')
        ? queryError(503, 'timeout', 'query timed out')
        : gibibytes(1)(requested);
    const life = await begin({ clock, history });
    await life.pass(200);
    expect(egressOf(await eventsOf(ledger))).toEqual([
      '12:01:00 1 tenant-tenant-b-b',
      '12:02:00 1 tenant-tenant-b-b',
    ]);
    expect(life.metering.gaps()).toEqual([
      {
        source: 'prometheus',
        scope: 'tenant-tenant-a-a',
        from: at(0),
        to: at(120),
        reason:
          'tenant_network_egress_gb: HTTP POST /api/v1/query: status 503: timeout: query timed out',
      },
    ]);
    expect(life.logs.filter((line) => line.includes('timed out')).length).toBeLessThanOrEqual(4);
    broken = false;
    await life.pass(120);
    const events = await eventsOf(ledger);
    expect(egressOf(events).toSorted()).toEqual(
      ['12:01:00', '12:02:00', '12:03:00', '12:04:00'].flatMap((end) => [
        `${end} 1 tenant-tenant-a-a`,
        `${end} 1 tenant-tenant-b-b`,
      ]),
    );
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    expect(life.metering.gaps()).toEqual([]);
    expect(await pendingRecords()).toEqual([]);
  });
});

async function pendingRecords(): Promise<string[]> {
  const keys: string[] = [];
  for await (const [key] of ledger.records('prometheus/pending/')) keys.push(key);
  return keys;
}
