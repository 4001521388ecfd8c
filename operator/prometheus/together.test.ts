import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import {
  type FakeAnswer,
  type FakePrometheus,
  type FakeRow,
  queryError,
  startFakePrometheus,
} from './testing/fake-prometheus.ts';
import { clockAt, eventsOf, historyOf, type PrometheusRun, live } from './testing/life.ts';

const GIB = 2 ** 30;
const TOO_MANY = queryError(
  422,
  'execution',
  'query processing would load too many samples into memory in query execution',
);

let prometheus: FakePrometheus;
let ledger: Ledger;
const lives: PrometheusRun[] = [];
beforeEach(async () => {
  prometheus = await startFakePrometheus(everyNamespace);
  ledger = createMemoryLedger();
});
afterEach(async () => {
  for (const life of lives.splice(0)) await life.kill();
  await prometheus.close();
});

type Options = Omit<Parameters<typeof live>[0], 'ledger' | 'environment'>;

async function begin(options: Options): Promise<PrometheusRun> {
  const life = await live({ ...options, ledger, environment: { PROMETHEUS_URL: prometheus.url } });
  lives.push(life);
  return life;
}

function tenants(count: number): readonly TenantCluster[] {
  return Array.from({ length: count }, (_, index) =>
    cluster(`t${index}`, { gpuUtilQuery: 'none' }, { namespace: `ns-${index}` }),
  );
}

/** The namespaces that a query selects. */
function namespacesOf(query: string): readonly string[] {
  const [, one] = /\{namespace="([^"]*)"/.exec(query) ?? [];
  if (one !== undefined) return [one];
  const [, several = ''] = /\{namespace=~"([^"]*)"/.exec(query) ?? [];
  return several === '' ? [] : several.split('|');
}

/** A GiB from each namespace that a query selects. */
function everyNamespace({ query }: { readonly query: string }): readonly FakeRow[] {
  const namespaces = namespacesOf(query);
  const isShared = query.includes('namespace=~');
  return namespaces.map((namespace): FakeRow => [isShared ? { namespace } : {}, String(GIB)]);
}

/** The ends of a tenant cluster's windows in the ledger, in minutes after the start. */
async function minutes(): Promise<ReadonlyMap<string, readonly number[]>> {
  const ends = new Map<string, number[]>();
  for (const { resource_id = '', window_end, quantity } of await eventsOf(ledger)) {
    expect(quantity).toBe('1');
    const end = (Date.parse(window_end) - START) / 60_000;
    ends.set(
      resource_id,
      [...(ends.get(resource_id) ?? []), end].toSorted((a, b) => a - b),
    );
  }
  return ends;
}

async function expectMinutes(of: readonly TenantCluster[], expected: readonly number[]) {
  const found = await minutes();
  for (const { id } of of) expect([id, found.get(id) ?? []]).toEqual([id, expected]);
}

/** Number of queries for each window, oldest first. */
function queriesByWindow(): readonly number[] {
  const byTime = Map.groupBy(prometheus.queries, ({ time }) => time);
  return [...byTime].toSorted(([a], [b]) => Number(a) - Number(b)).map(([, of]) => of.length);
}

describe('many tenant clusters', () => {
  test('U18: cost two queries a window, a thousand as well as one', async () => {
    const clock = clockAt(0);
    const all = Array.from({ length: 1_000 }, (_, index) =>
      cluster(`t${index}`, {}, { namespace: `ns-${index}` }),
    );
    prometheus.answer = (requested) =>
      requested.query.startsWith('sum') ? everyNamespace(requested) : [];
    const life = await begin({ clock, history: historyOf(clock, ...all) });
    await life.pass(91);
    expect(queriesByWindow()).toEqual([2]);
    await expectMinutes(all, [1]);
    expect(life.metering.gaps()).toEqual([]);
  }, 120_000);

  test('are made up for together after a query about all of them has failed for a while', async () => {
    const clock = clockAt(0);
    const all = tenants(500);
    prometheus.answer = () => TOO_MANY;
    const life = await begin({ clock, history: historyOf(clock, ...all) });
    await life.pass(91);
    expect(life.metering.gaps()).toHaveLength(500);
    // A refused query is not repeated for each tenant cluster.
    expect(prometheus.queries.length).toBeLessThan(300);
    prometheus.answer = everyNamespace;
    const before = prometheus.queries.length;
    await life.pass(120);
    await expectMinutes(all, [1, 2, 3]);
    expect(life.metering.gaps()).toEqual([]);
    expect(prometheus.queries.length - before).toBeLessThan(300);
  }, 120_000);
});

describe('a query about many that cannot be answered', () => {
  test.each<readonly [string, FakePrometheus['answer']]>([
    ['of too many samples', () => TOO_MANY],
    ['that is too long', () => ({ status: 400, body: 'too long query' })],
    ['with too large an answer', () => ({ status: 200, body: ' '.repeat(5 * 1024 * 1024) })],
    ['that takes too long for a proxy before it', () => ({ status: 504, body: 'too slow' })],
    [
      'with rows that name nobody',
      (requested) => [everyNamespace(requested), everyNamespace(requested)].flat(),
    ],
  ])('%s: is queried in parts, and the size that worked is kept', async (_, refusal) => {
    const clock = clockAt(0);
    const all = tenants(60);
    prometheus.answer = (requested) =>
      namespacesOf(requested.query).length > 10 ? refusal(requested) : everyNamespace(requested);
    const life = await begin({ clock, history: historyOf(clock, ...all) });
    await life.pass(60 * 4 + 31);
    await expectMinutes(all, [1, 2, 3, 4]);
    expect(life.metering.gaps()).toEqual([]);
    const [first = 0, ...others] = queriesByWindow();
    expect(first).toBeLessThan(30);
    for (const count of others) expect(count).toBeLessThanOrEqual(10);
  });

  test('because of one of them costs the others nothing, and not once more in each window', async () => {
    const clock = clockAt(0);
    const all = tenants(64);
    prometheus.answer = (requested) =>
      namespacesOf(requested.query).includes('ns-7') ? TOO_MANY : everyNamespace(requested);
    const life = await begin({ clock, history: historyOf(clock, ...all) });
    await life.pass(60 * 6 + 31);
    await expectMinutes(
      all.filter(({ name }) => name !== 't7'),
      [1, 2, 3, 4, 5, 6],
    );
    expect(life.metering.gaps()).toMatchObject([
      { scope: 'tenant-ns-7-t7', from: START, to: START + 360_000 },
    ]);
    const [first = 0, ...others] = queriesByWindow();
    expect(first).toBeLessThan(20);
    for (const count of others) expect(count).toBeLessThanOrEqual(5);
  });

  test('at a server that is down causes one single query, and no more', async () => {
    const clock = clockAt(0);
    prometheus.answer = () => 'cut';
    const life = await begin({ clock, history: historyOf(clock, ...tenants(100)) });
    await life.pass(200);
    expect(life.metering.gaps()).toMatchObject([{ scope: '*' }]);
    expect(prometheus.queries.length).toBeLessThan(15);
    prometheus.answer = everyNamespace;
    await life.pass(60);
    await expectMinutes(tenants(100), [1, 2, 3]);
  }, 60_000);
});

test('a query without a name is sent once for all tenant clusters that have it', async () => {
  const clock = clockAt(0);
  const same = { egressQuery: 'sum(bytes)', gpuUtilQuery: 'none' };
  const all = ['a', 'b', 'c'].map((name) => cluster(name, same, { namespace: `ns-${name}` }));
  prometheus.answer = () => [[{}, String(GIB)]];
  const life = await begin({ clock, history: historyOf(clock, ...all) });
  await life.pass(151);
  expect(queriesByWindow()).toEqual([1, 1]);
  await expectMinutes(all, [1, 2]);
});

test('whatever fails and whenever it is killed, each window of all is charged exactly once', async () => {
  const step = fc.record({
    seconds: fc.integer({ min: 1, max: 200 }),
    end: fc.constantFrom('go on', 'kill', 'stop'),
    failing: fc.subarray(['ns-0', 'ns-3', 'ns-4']),
    most: fc.constantFrom(1, 2, 5, 100),
    kind: fc.constantFrom<FakeAnswer>(
      'cut',
      { status: 504, body: '' },
      TOO_MANY,
      queryError(503, 'timeout'),
    ),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), async (steps) => {
      ledger = createMemoryLedger();
      const clock = clockAt(0);
      const all = tenants(7);
      const history = historyOf(clock, ...all);
      let life = await begin({ clock, history });
      for (const { seconds, end, failing, most, kind } of steps) {
        prometheus.answer = (requested) => {
          const about = namespacesOf(requested.query);
          const fails = about.length > most || failing.some((name) => about.includes(name));
          return fails ? kind : everyNamespace(requested);
        };
        await life.pass(seconds);
        if (end === 'go on') continue;
        await (end === 'kill' ? life.kill() : life.stop());
        life = await begin({ clock, history });
      }
      prometheus.answer = everyNamespace;
      await life.pass(400);
      const last = Math.floor((clock.now() - 30_000 - START) / 60_000);
      await expectMinutes(
        all,
        Array.from({ length: last }, (_, index) => index + 1),
      );
      expect(ledger.stats().conflicts).toBe(0);
      expect(life.metering.gaps()).toEqual([]);
      await life.kill();
    }),
    { numRuns: 15 },
  );
}, 120_000);

test('U19: more than a thousand queries about single tenant clusters cause a warning', async () => {
  const clock = clockAt(0);
  const named = { egressQuery: 'bytes{n="{{namespace}}"}', gpuUtilQuery: 'none' };
  const all = (count: number): readonly TenantCluster[] =>
    tenants(count).map((one) => ({ ...one, metering: { ...one.metering, ...named } }));
  prometheus.answer = () => [];
  const history = historyOf(clock, ...all(1_001));
  const life = await begin({ clock, history });
  await life.pass(100);
  expect(life.metering.report()).toEqual({ manyQueries: 1_001, leftOut: [] });
  const warning = '1001 queries in every window name one tenant cluster each';
  expect(life.logs.filter((line) => line.includes(warning))).toHaveLength(1);
  expect((await life.metrics.tenantQueries.get()).values).toMatchObject([{ value: 1_001 }]);
  expect(prometheus.queries).toHaveLength(1_001);
  history.observe(all(1_000), clock.now());
  await life.pass(121);
  expect(life.metering.report()).toEqual({ leftOut: [] });
}, 120_000);
