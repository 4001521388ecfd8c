import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../e2e/control-plane/ports.ts';
import { writeHistory } from '../../e2e/prometheus/history.ts';
import { requirePrometheus } from '../../e2e/prometheus/programs.ts';
import { type PrometheusServer, startPrometheusServer } from '../../e2e/prometheus/server.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { START } from '../metering/meters/testing/times.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import type { Measure } from './measure.ts';
import { builtInMeasures, clockAt, eventsOf, historyOf, live } from './testing/life.ts';
import { differentialWorld } from './testing/differential-world.ts';

const MINUTES = 6;
const world = differentialWorld(20_261_122);

let directory: string;
let server: PrometheusServer;
/** The same history, on a server that loads few samples for a query. */
let small: PrometheusServer;
beforeAll(async () => {
  const programs = await requirePrometheus();
  directory = await mkdtemp(join(tmpdir(), 'differential-'));
  const start = async (name: string, flags: readonly string[]): Promise<PrometheusServer> => {
    const own = join(directory, name);
    await writeHistory({
      programs,
      directory: own,
      start: START,
      seconds: MINUTES * 60,
      scrapeSeconds: 15,
      series: world.series,
    });
    return startPrometheusServer({ programs, directory: own, port: await freePort(), flags });
  };
  server = await start('whole', []);
  small = await start('small', [`--query.max-samples=${world.samplesForSome}`]);
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await small?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Queries each tenant cluster separately. */
const oneByOne = (measures: readonly Measure[]): readonly Measure[] =>
  measures.map((measure) => ({
    ...measure,
    plan: (subject, window) => {
      const plan = measure.plan(subject, window);
      if (plan.kind !== 'query') return plan;
      return { kind: 'query', promql: plan.promql, beside: plan.beside };
    },
  }));

interface Metered {
  readonly events: readonly UsageEvent[];
  readonly gaps: readonly Gap[];
  readonly logs: readonly string[];
  /** Queries for each window, by outcome. */
  readonly queries: Readonly<Record<string, number>>;
}

async function meter(
  url: string,
  environment: Readonly<Record<string, string>>,
  arrange: (measures: readonly Measure[]) => readonly Measure[],
): Promise<Metered> {
  const clock = clockAt(0);
  const ledger = createMemoryLedger();
  const life = await live({
    ledger,
    clock,
    history: historyOf(clock, ...world.clusters),
    environment: { PROMETHEUS_URL: url, ...environment },
    measures: (settings) => arrange(builtInMeasures(settings)),
  });
  await life.pass(MINUTES * 60);
  await life.stop();
  const { values } = await life.metrics.queries.get();
  const queries: Record<string, number> = {};
  for (const { labels, value } of values) {
    const outcome = String(labels['outcome']);
    queries[outcome] = (queries[outcome] ?? 0) + value / (MINUTES - 1);
  }
  const events = (await eventsOf(ledger)).map((event) => ({ ...event, recorded_at: '' }));
  return {
    events: events.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    gaps: life.metering.gaps().toSorted((a, b) => (a.scope < b.scope ? -1 : 1)),
    logs: life.logs,
    queries,
  };
}

describe.each(['default', 'vcluster-platform'])('the preset %s', (preset) => {
  const environment = { PROMETHEUS_PRESET: preset };
  let alone: Metered;
  beforeAll(async () => {
    alone = await meter(server.url, environment, oneByOne);
  }, 120_000);

  test('U18: one query about all gives each tenant cluster what its own query gives, to the last digit', async () => {
    const together = await meter(server.url, environment, (measures) => measures);
    expect(together.events).toEqual(alone.events);
    expect(together.gaps).toEqual(alone.gaps);
    expect(together.queries).toEqual({ answered: 2 });
    // The world has enough events to compare.
    const metrics = Map.groupBy(alone.events, ({ metric }) => metric);
    expect(metrics.get('tenant_network_egress_gb')?.length).toBeGreaterThan(100);
    expect(metrics.get('tenant_gpu_utilization')?.length).toBeGreaterThan(100);
    expect(alone.queries['answered']).toBeGreaterThan(80);
  }, 60_000);

  test('a server that loads too few samples for all is queried about some, with the same result', async () => {
    const together = await meter(small.url, environment, (measures) => measures);
    expect(together.queries['failed']).toBeGreaterThan(0);
    expect(together.events).toEqual(alone.events);
    expect(together.gaps).toEqual(alone.gaps);
    // The other windows use what the first one learned.
    expect(together.queries['failed']).toBeLessThan(5);
    expect(together.queries['answered']).toBeLessThan(20);
  }, 60_000);
});
