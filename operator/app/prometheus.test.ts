import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadEnvironment } from '../settings/load-environment.ts';
import { createSettingsStore } from '../settings/settings-store.ts';
import type { Settings } from '../settings/settings.ts';
import { wantedMetrics } from '../delivery/feeder/event-filter.ts';
import { createLagoWorld } from '../destinations/lago/testing/lago-world.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { createObservation } from '../metering/timelines/observation.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { createLiveCatalog } from './metering.ts';
import { createConfiguredMetrics, createPrometheus, loadConfiguredMetrics } from './prometheus.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'configured-'));
  path = join(directory, 'metrics.yaml');
});
afterEach(async () => rm(directory, { recursive: true, force: true }));

const URL = 'http://127.0.0.1:9090';

function settingsOf(environment: Readonly<Record<string, string>>): Settings {
  const loaded = loadEnvironment(environment, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  return loaded.settings;
}

const TWO = `
- { code: gateway_requests, unit: requests, query: up, dimensions: [route] }
- { code: memory_in_use, billable: false, query: up }
`;

describe('PROMETHEUS_METRICS_FILE at the start', () => {
  const problems = async (environment: Readonly<Record<string, string>>): Promise<unknown> => {
    const loaded = await loadConfiguredMetrics(
      settingsOf({ PROMETHEUS_METRICS_FILE: path, ...environment }),
    );
    return loaded.kind === 'invalid' ? loaded.problems : loaded.metrics.map(({ code }) => code);
  };

  test('that is broken or missing is an error of configuration; the policy may name the server', async () => {
    expect(await problems({ PROMETHEUS_URL: URL })).toEqual([expect.stringContaining('ENOENT')]);
    await writeFile(path, '- { code: a, query: up }\n- { code: B, query: up }\n- { code: c }');
    expect(await problems({ PROMETHEUS_URL: URL })).toHaveLength(2);
    await writeFile(path, TWO);
    expect(await problems({})).toEqual(['gateway_requests', 'memory_in_use']);
    const custom = { PROMETHEUS_URL: URL, CUSTOM_METRICS: 'memory_in_use:mib' };
    expect(await problems(custom)).toEqual([expect.stringContaining('in CUSTOM_METRICS')]);
    expect(await problems({ PROMETHEUS_URL: URL })).toEqual(['gateway_requests', 'memory_in_use']);
  });
});

test('configured metrics are in the catalogue as the file says, and billable ones are created in a billing system', async () => {
  await writeFile(path, TWO);
  const environment = settingsOf({ PROMETHEUS_URL: URL, PROMETHEUS_METRICS_FILE: path });
  const loaded = await loadConfiguredMetrics(environment);
  const settings = createSettingsStore(environment);
  const clock = createManualClock();
  const logger = createMemoryLogger();
  const configured = createConfiguredMetrics({
    initial: loaded.kind === 'metrics' ? loaded.metrics : [],
    path,
    settings,
    clock,
    logger,
  });
  const catalog = createLiveCatalog(settings, () => configured.definitions(), logger);
  expect(catalog().find('gateway_requests')).toMatchObject({
    unit: 'requests',
    source: 'prometheus',
    informational: false,
    dimensions: ['region', 'route', 'tenant_cluster', 'tenant_class'],
  });
  expect(catalog().find('memory_in_use')?.informational).toBe(true);
  expect(catalog()).toBe(catalog());

  const world = await createLagoWorld();
  const created = async (): Promise<string> => {
    await world.bootstrap(wantedMetrics(catalog().metrics, world.destination, undefined));
    return JSON.stringify(world.requests('POST', '/api/v1/billable_metrics'));
  };
  expect(await created()).toContain('gateway_requests');
  expect(await created()).not.toContain('memory_in_use');

  await writeFile(path, TWO.replace('false', 'true'));
  const stop = new AbortController();
  const [component] = configured.components;
  const ended = component?.run(stop.signal);
  await clock.advance(10_000);
  await clock.sleeper();
  expect(catalog().find('memory_in_use')?.informational).toBe(false);
  expect(await created()).toContain('memory_in_use');
  stop.abort();
  await ended;
  await world.close();
});

test('U01: without PROMETHEUS_URL nothing is queried, and nothing of an earlier run is due', async () => {
  const environment = settingsOf({});
  const ledger = createMemoryLedger();
  await ledger.writeRecords([{ key: 'prometheus/state', value: '{"v":1,"end":0,"sizeMs":60000}' }]);
  const settings = createSettingsStore(environment);
  const registry = new Registry();
  const common = {
    clock: createManualClock(),
    random: () => 0.5,
    logger: createMemoryLogger(),
    settings,
  };
  const prometheus = createPrometheus({
    ...common,
    outbound: createOutbound({ registry, clock: common.clock, userAgent: 'meterfeed/test' }),
    configured: createConfiguredMetrics({ ...common, initial: [], path: undefined }),
    observation: createObservation({
      nodeSettings: () => environment.metering,
      billedUntil: (present) => present,
      countClamped: () => undefined,
    }),
    windows: { lastWindow: { start: 0, end: 60_000 } },
    ledger,
    registry,
  });
  const stop = new AbortController();
  const ended = prometheus.component.run(stop.signal);
  while ((await ledger.record('prometheus/state')) !== undefined) await new Promise(setImmediate);
  expect(prometheus.gaps()).toEqual([]);
  stop.abort();
  await ended;
});
