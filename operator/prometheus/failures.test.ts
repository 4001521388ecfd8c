import * as fc from 'fast-check';
import pLimit from 'p-limit';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import type { QueryRunner, QueryJob, JobOutcome } from './query.ts';
import { BatchSizes } from './batch-sizes.ts';
import { createEgressMeasure } from './built-in-measures.ts';
import { forgetPrometheusWork } from './prometheus-metering.ts';
import { Pass } from './pass.ts';
import {
  type FakeAnswer,
  type FakePrometheus,
  queryError,
  startFakePrometheus,
} from './testing/fake-prometheus.ts';
import { clockAt, eventsOf, historyOf, type PrometheusRun, live } from './testing/life.ts';

const GIB = 2 ** 30;

const QUERIES = { egressQuery: 'egress{n="{{namespace}}"}', gpuUtilQuery: 'none' };

function tenant(name: string, egressQuery = QUERIES.egressQuery): TenantCluster {
  return cluster(name, { ...QUERIES, egressQuery }, { namespace: `tenant-${name}` });
}

let prometheus: FakePrometheus;
let ledger: Ledger;
const lives: PrometheusRun[] = [];
beforeEach(async () => {
  prometheus = await startFakePrometheus(() => one);
  ledger = createMemoryLedger();
});
afterEach(async () => {
  for (const life of lives.splice(0)) await life.kill();
  await prometheus.close();
});

const one: FakeAnswer = [[{}, String(GIB)]];
const down: FakeAnswer = { status: 502, body: 'bad gateway' };

type Options = Omit<Parameters<typeof live>[0], 'ledger' | 'environment'>;

async function begin(
  options: Options,
  environment: Record<string, string> = {},
): Promise<PrometheusRun> {
  const complete = { PROMETHEUS_URL: prometheus.url, ...environment };
  const life = await live({ ...options, ledger, environment: complete });
  lives.push(life);
  return life;
}

function at(seconds: number): number {
  return START + seconds * 1000;
}

/** The ends of a tenant cluster's windows in the ledger, in minutes after the start, sorted. */
async function minutesOf(name: string): Promise<number[]> {
  const events = await eventsOf(ledger);
  return events
    .filter(({ resource_id }) => resource_id === `tenant-tenant-${name}-${name}`)
    .map(({ window_end }) => (Date.parse(window_end) - START) / 60_000)
    .toSorted((x, y) => x - y);
}

const anyJob: QueryJob = {
  measure: createEgressMeasure('default'),
  subject: { cluster: tenant('a'), uniqueName: true, firstClusters: new Map<string, string>() },
  window: { start: at(0), end: at(60) },
};

const timedOut = { kind: 'failed', cause: 'server', reason: 'timed out' } as const;

/** The first eight queries time out one after the other. All others wait until they are aborted. */
function silentRunner(): QueryRunner['queryOne'] & { readonly count: number } {
  const state = { count: 0 };
  const queryOne: QueryRunner['queryOne'] = async (_job, _plan, signal) => {
    state.count += 1;
    if (state.count <= 8) await new Promise((resolve) => setTimeout(resolve, state.count));
    else await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return timedOut;
  };
  return Object.defineProperty(queryOne, 'count', { get: () => state.count }) as typeof queryOne & {
    readonly count: number;
  };
}

async function keys(prefix: string): Promise<string[]> {
  const found: string[] = [];
  for await (const [key] of ledger.records(prefix)) found.push(key);
  return found;
}

describe('a server that is down', () => {
  test.each([
    ['that cannot be reached', 'cut', 'connection'],
    ['whose proxy answers for it', down, 'status 502'],
    ['that wants other credentials', { status: 401, body: '' }, 'status 401'],
    ['that is overloaded', queryError(503, 'unavailable', 'busy'), 'busy'],
  ] as const)(
    '%s: is one gap of all, and is queried for nothing but the oldest window',
    async (_, answer, words) => {
      const clock = clockAt(0);
      const tenants = Array.from({ length: 30 }, (_unused, index) => tenant(`t${index}`));
      prometheus.answer = () => answer;
      const life = await begin({ clock, history: historyOf(clock, ...tenants) });
      await life.pass(400);
      expect(life.metering.gaps()).toEqual([
        {
          source: 'prometheus',
          scope: '*',
          from: at(0),
          to: at(360),
          reason: expect.stringContaining(words),
        },
      ]);
      expect(new Set(prometheus.queries.map(({ time }) => time))).toEqual(
        new Set([`${at(60) / 1000}`]),
      );
      expect(prometheus.queries.length).toBeLessThan(60);
      expect(await keys('prometheus/')).toEqual(['prometheus/state']);
      expect(life.logs.filter((line) => line.includes('does not answer'))).toHaveLength(1);
      prometheus.answer = () => one;
      await life.pass(70);
      for (const { name } of tenants) {
        expect(await minutesOf(name)).toEqual(
          [1, 2, 3, 4, 5, 6, 7].slice(0, (await minutesOf(name)).length),
        );
        expect((await minutesOf(name)).length).toBeGreaterThanOrEqual(6);
      }
      expect(life.metering.gaps()).toEqual([]);
      expect(life.logs.filter((line) => line.includes('answers again'))).toHaveLength(1);
    },
  );

  test('that takes queries and never answers is not waited for by every tenant cluster in turn', async () => {
    const runner = { queryOne: silentRunner(), queryShared: async () => timedOut };
    const stop = new AbortController();
    const pass = new Pass(runner, new BatchSizes(), stop.signal);
    const requested = Array.from({ length: 1_000 }, (_, index) => index);
    const outcomes: JobOutcome[] = [];
    await pLimit(8).map(requested, async () => {
      outcomes.push(await pass.queryOne(anyJob, { kind: 'query', promql: 'up' }));
    });
    expect(pass.silent).toBe('timed out');
    expect(outcomes).toHaveLength(1_000);
    expect(runner.queryOne.count).toBeLessThanOrEqual(15);
  });

  test('beyond MAX_BACKFILL loses what is older, and logs it', async () => {
    const clock = clockAt(0);
    prometheus.answer = () => 'cut';
    const life = await begin(
      { clock, history: historyOf(clock, tenant('a')) },
      { MAX_BACKFILL: '5m' },
    );
    await life.pass(600);
    prometheus.answer = () => one;
    await life.pass(90);
    expect(await minutesOf('a')).toEqual([6, 7, 8, 9, 10, 11]);
    expect(life.metering.gaps()).toEqual([
      {
        source: 'prometheus',
        scope: '*',
        from: at(0),
        to: at(300),
        reason: 'older than MAX_BACKFILL',
      },
    ]);
  });
});

describe('a query that fails', () => {
  const broken = queryError(400, 'bad_data', 'parse error');

  test('costs no other tenant and no other metric a thing', async () => {
    const clock = clockAt(0);
    prometheus.answer = ({ query }) => (query.includes('tenant-a') ? broken : one);
    const life = await begin({ clock, history: historyOf(clock, tenant('a'), tenant('b')) });
    await life.pass(400);
    expect(await minutesOf('a')).toEqual([]);
    expect(await minutesOf('b')).toEqual([1, 2, 3, 4, 5, 6]);
    const failed = prometheus.queries.filter(({ query }) => query.includes('tenant-a'));
    // Not once for each opened window, and at growing intervals.
    expect(failed.length).toBeLessThan(8);
  });

  test('is made up for by the query that replaces it', async () => {
    const clock = clockAt(0);
    prometheus.answer = ({ query }) => (query.startsWith('wrong') ? broken : one);
    const history = historyOf(clock, tenant('a', 'wrong'));
    const life = await begin({ clock, history });
    await life.pass(240);
    expect(await minutesOf('a')).toEqual([]);
    history.observe([tenant('a', 'right')], clock.now());
    await life.pass(300);
    expect((await minutesOf('a')).slice(0, 7)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test('for one window for good does not hold up the windows after it', async () => {
    const clock = clockAt(0);
    const poison = String(at(120) / 1000);
    prometheus.answer = ({ time }) => (time === poison ? broken : one);
    const life = await begin(
      { clock, history: historyOf(clock, tenant('a'), tenant('b')) },
      { MAX_BACKFILL: '10m' },
    );
    await life.pass(600);
    expect(await minutesOf('a')).toEqual([1, 3, 4, 5, 6, 7, 8, 9]);
    expect(life.metering.gaps()).toMatchObject([
      { scope: expect.stringContaining('tenant-'), from: at(60), to: at(120) },
      { scope: expect.stringContaining('tenant-'), from: at(60), to: at(120) },
    ]);
    await life.pass(150);
    expect(life.metering.gaps()[0]?.reason).toMatch(
      /^older than MAX_BACKFILL: tenant_network_egress_gb: .*parse error/,
    );
    expect(await keys('prometheus/pending/')).toEqual([]);
    const { values } = await life.metrics.givenUpWindows.get();
    expect(values).toMatchObject([{ labels: { metric: 'tenant_network_egress_gb' }, value: 2 }]);
  });

  test('is forgotten when nobody is to be charged for it any more', async () => {
    const clock = clockAt(0);
    prometheus.answer = () => broken;
    const history = historyOf(clock, tenant('a'));
    const life = await begin({ clock, history });
    await life.pass(120);
    expect(await keys('prometheus/pending/')).toHaveLength(1);
    history.observe([tenant('a', 'none')], clock.now());
    await life.pass(120);
    expect(await keys('prometheus/pending/')).toEqual([]);
    expect(life.metering.gaps()).toEqual([]);
  });
});

describe('a restart', () => {
  test('loses nothing that was pending, and queries nothing twice', async () => {
    const clock = clockAt(0);
    const history = historyOf(clock, tenant('a'), tenant('b'));
    prometheus.answer = ({ query }) => (query.includes('tenant-a') ? queryError() : one);
    const first = await begin({ clock, history });
    await first.pass(160);
    await first.kill();
    const second = await begin({ clock, history });
    expect(second.metering.gaps()).toMatchObject([
      { scope: 'tenant-tenant-a-a', from: at(0), to: at(120) },
    ]);
    prometheus.answer = () => one;
    await second.pass(18);
    expect(await minutesOf('a')).toEqual([1, 2]);
    expect(await minutesOf('b')).toEqual([1, 2]);
    const again = prometheus.queries.filter(
      ({ query, time }) => query.includes('tenant-b') && time === `${at(60) / 1000}`,
    );
    expect(again).toHaveLength(1);
  });

  test('without PROMETHEUS_URL forgets it: windows of that time are not queried later', async () => {
    const clock = clockAt(0);
    const history = historyOf(clock, tenant('a'));
    const first = await begin({ clock, history });
    await first.pass(100);
    await first.stop();
    await forgetPrometheusWork(ledger);
    expect(await keys('prometheus/')).toEqual([]);
    await clock.advance(3_600_000);
    const second = await begin({ clock, history });
    await second.pass(130);
    expect(await minutesOf('a')).toEqual([1, 63]);
  });
});

test('whatever fails and whenever it is killed, each window is charged exactly once', async () => {
  const step = fc.record({
    seconds: fc.integer({ min: 1, max: 200 }),
    end: fc.constantFrom('go on', 'kill', 'stop'),
    failing: fc.subarray(['a', 'b', 'c']),
    kind: fc.constantFrom<FakeAnswer>('cut', down, queryError(), queryError(503, 'timeout')),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), async (steps) => {
      ledger = createMemoryLedger();
      const clock = clockAt(0);
      const history = historyOf(clock, tenant('a'), tenant('b'), tenant('c'));
      let life = await begin({ clock, history });
      for (const { seconds, end, failing, kind } of steps) {
        prometheus.answer = ({ query }) =>
          failing.some((name) => query.includes(`tenant-${name}`)) ? kind : one;
        await life.pass(seconds);
        if (end === 'go on') continue;
        await (end === 'kill' ? life.kill() : life.stop());
        life = await begin({ clock, history });
      }
      prometheus.answer = () => one;
      await life.pass(400);
      const last = Math.floor((clock.now() - 30_000 - START) / 60_000);
      const expected = Array.from({ length: last }, (_, index) => index + 1);
      for (const name of ['a', 'b', 'c']) expect(await minutesOf(name)).toEqual(expected);
      expect(ledger.stats().conflicts).toBe(0);
      expect(life.metering.gaps()).toEqual([]);
      await life.kill();
    }),
    { numRuns: 15 },
  );
}, 60_000);
