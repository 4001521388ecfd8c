import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import { type Environment, loadEnvironment } from '../settings/load-environment.ts';
import { createDestinationRegistry, DESTINATIONS } from '../destinations/registry.ts';
import { createTestContext } from '../destinations/testing/context.ts';
import { testWindow, TEST_WINDOW_START } from '../ledger/testing/events.ts';
import { isRecord } from '../model/is-record.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { startTestServer, type HttpTestServer } from '../outbound/testing/test-server.ts';
import { createRegistry } from '../telemetry/registry.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { exportTelemetry, tracedDestinations } from './otlp.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function collector(status = 200): Promise<HttpTestServer> {
  const server = await startTestServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
  });
  closers.push(() => server.close());
  return server;
}

/** What is exported by these variables; `end` sends what is left. */
async function exporting(registry: Registry, variables: Environment) {
  const loaded = loadEnvironment(variables, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  const logger = createMemoryLogger();
  const clock = systemClock;
  const outbound = createOutbound({ registry: new Registry(), clock, userAgent: 'meterfeed/test' });
  const options = { registry, clock, logger, version: '1.2.3', instance: 'meterfeed-0' };
  const made = await exportTelemetry({ ...options, environment: loaded.settings }, outbound);
  const stopping = new AbortController();
  const ended = Promise.all(made.components.map((component) => component.run(stopping.signal)));
  return {
    tracer: made.tracer,
    logger,
    end: async () => {
      stopping.abort();
      await ended;
    },
  };
}

/** Every sample of a report, as `/metrics` writes it. */
function samplesOf(body: string): ReadonlyMap<string, number> {
  const samples = new Map<string, number>();
  const add = (name: string, labels: readonly string[], value: number): void => {
    samples.set(labels.length === 0 ? name : `${name}{${labels.toSorted().join()}}`, value);
  };
  for (const metric of recordsIn(
    recordsIn(recordsIn(JSON.parse(body), 'resourceMetrics')[0], 'scopeMetrics')[0],
    'metrics',
  )) {
    const name = String(metric['name']);
    for (const kind of ['sum', 'gauge', 'histogram']) {
      for (const point of recordsIn(metric[kind], 'dataPoints')) {
        const labels = recordsIn(point, 'attributes').map(({ key, value }) => {
          return `${String(key)}="${isRecord(value) ? String(value['stringValue']) : ''}"`;
        });
        if (kind !== 'histogram') {
          add(name, labels, Number(point['asDouble'] ?? point['asInt']));
          continue;
        }
        const bounds = [...numbersIn(point['explicitBounds']), '+Inf'];
        let upTo = 0;
        for (const [index, count] of numbersIn(point['bucketCounts']).entries()) {
          upTo += count;
          add(`${name}_bucket`, [...labels, `le="${bounds[index]}"`], upTo);
        }
        add(`${name}_sum`, labels, Number(point['sum']));
        add(`${name}_count`, labels, Number(point['count']));
      }
    }
  }
  return samples;
}

/** The same of the text of `/metrics`. */
function samplesIn(text: string): ReadonlyMap<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const [, name = '', labels = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      const sorted = labels
        .split(/,(?=\w+=)/)
        .toSorted()
        .join();
      return [sorted === '' ? name : `${name}{${sorted}}`, Number(value)];
    }),
  );
}

function recordsIn(value: unknown, field: string): readonly Record<string, unknown>[] {
  const held: unknown = isRecord(value) ? value[field] : undefined;
  return Array.isArray(held) ? held.filter(isRecord) : [];
}

function numbersIn(value: unknown): readonly number[] {
  return Array.isArray(value) ? value.map(Number) : [];
}

test('OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS: a collector receives what /metrics says, every sample of it', async () => {
  const server = await collector();
  const registry = new Registry();
  const registers = [registry];
  const counter = new Counter({ name: 'a_total', help: 'A', labelNames: ['x'], registers });
  counter.inc({ x: 'one' }, 3);
  counter.inc({ x: 'two' }, 0.5);
  new Gauge({ name: 'b_bytes', help: 'B', registers }).set(-7.25);
  new Gauge({ name: 'unknown', help: 'No number', registers }).set(Number.NaN);
  const buckets = [0.1, 1, 10];
  const options = { name: 'c_seconds', help: 'C', labelNames: ['y'], buckets, registers } as const;
  const histogram = new Histogram(options);
  for (const seconds of [0.05, 0.5, 0.7, 20]) histogram.observe({ y: 'z' }, seconds);
  const { end, logger } = await exporting(registry, {
    OTEL_EXPORTER_OTLP_ENDPOINT: `${server.url}/base/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'X-Key=canary',
    CLUSTER_NAME: 'cp-7',
  });
  await end();
  const [request, ...more] = server.requests;
  expect(more).toEqual([]);
  expect(request).toMatchObject({ method: 'POST', url: '/base/v1/metrics' });
  expect(request?.headers).toMatchObject({ 'x-key': 'canary', 'content-type': 'application/json' });
  const wanted = samplesIn(await registry.metrics());
  expect(wanted.size).toBeGreaterThan(9);
  const finite = [...wanted].filter(([, value]) => Number.isFinite(value));
  expect(samplesOf(request?.body ?? '')).toEqual(new Map(finite));
  const [resource] = recordsIn(JSON.parse(request?.body ?? ''), 'resourceMetrics');
  const stated = JSON.stringify(resource?.['resource']);
  for (const text of ['"meterfeed"', '"1.2.3"', '"meterfeed-0"', '"cp-7"']) {
    expect(stated).toContain(text);
  }
  expect(logger.lines.join('\n')).not.toContain('canary');
});

test('OTEL_METRIC_EXPORT_INTERVAL: the operator’s own registry is reported again and again', async () => {
  const server = await collector();
  const { end } = await exporting(createRegistry({ version: '1.2.3' }), {
    OTEL_EXPORTER_OTLP_ENDPOINT: server.url,
    OTEL_METRIC_EXPORT_INTERVAL: '1000',
  });
  await expect.poll(() => server.requests.length, { timeout: 10_000 }).toBeGreaterThan(1);
  await end();
  const names = new Set([...samplesOf(server.requests[0]?.body ?? '').keys()].map(nameOf));
  const text = await createRegistry({ version: '1.2.3' }).metrics();
  const listed = new Set([...samplesIn(text).keys()].map(nameOf));
  // Of collections there may have been none of a kind yet.
  for (const name of ['meterfeed_build_info', 'process_resident_memory_bytes']) {
    expect(listed.has(name) && names.has(name), name).toBe(true);
  }
});

function nameOf(sample: string): string {
  return sample.replace(/\{.*/, '');
}

test('traces: a window with its append, and what goes to a destination, failed or not', async () => {
  const server = await collector();
  const { end, tracer } = await exporting(new Registry(), {
    OTEL_EXPORTER_OTLP_ENDPOINT: server.url,
  });
  if (tracer === undefined) throw new Error('no tracer');
  const window = tracer.begin('window', { end: '2026-11-21T09:01:00Z' });
  window.child('append', { events: 3 }).end();
  window.end();
  const statuses = [200, 503];
  const receiver = await startTestServer((_, response) => {
    response.writeHead(statuses.shift() ?? 500).end();
  });
  closers.push(() => receiver.close());
  const create = tracedDestinations(createDestinationRegistry(createTestContext()), tracer);
  const made = create({
    name: 'hook',
    type: 'webhook',
    suspend: false,
    startFrom: 'now',
    options: { url: receiver.url, secrets: [], headers: new Map(), source: 'cp' },
  });
  if (made.kind !== 'created') throw new Error(made.reason);
  const { signal } = new AbortController();
  for (const _ of [1, 2]) await made.destination.send(testWindow(TEST_WINDOW_START, 3), signal);
  await made.destination.close();
  await end();
  const traced = server.requests.find(({ url }) => url === '/v1/traces');
  const [resource] = recordsIn(JSON.parse(traced?.body ?? ''), 'resourceSpans');
  const spans = recordsIn(recordsIn(resource, 'scopeSpans')[0], 'spans');
  const byName = Map.groupBy(spans, ({ name }) => String(name));
  const [outer] = byName.get('window') ?? [];
  const [inner] = byName.get('append') ?? [];
  expect(inner?.['parentSpanId']).toBe(outer?.['spanId']);
  expect(inner?.['traceId']).toBe(outer?.['traceId']);
  const deliveries = byName.get('delivery') ?? [];
  expect(deliveries.map(({ status }) => status)).toMatchObject([
    { code: 0 },
    { code: 2, message: 'HTTP POST /: status 503' },
  ]);
  expect(JSON.stringify(deliveries[0]?.['attributes'])).toContain('"hook"');
  expect(JSON.stringify(spans)).not.toContain('tenant-vcluster');
});

test('a collector that refuses or is away is reported once, and delays nothing', async () => {
  const server = await collector(403);
  const refused = await exporting(new Registry(), { OTEL_EXPORTER_OTLP_ENDPOINT: server.url });
  refused.tracer?.begin('window').end();
  await refused.end();
  expect(refused.logger.lines.join('\n')).toContain(
    '[metrics] not exported: HTTP POST /v1/traces: status 403',
  );
  const away = await exporting(new Registry(), {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
  });
  await away.end();
  expect(away.logger.lines.join('\n')).toContain('connection refused');
});

test('without an endpoint nothing of it is there, and nothing imports it at the start', async () => {
  expect(await exporting(new Registry(), {})).toMatchObject({ tracer: undefined });
  const root = join(import.meta.dirname, '..');
  const files = globSync('**/*.ts', { cwd: root }).filter((file) => !file.endsWith('.test.ts'));
  const importing = files.filter((file) =>
    /^(?:import (?!type).*|\}) from '(?:@opentelemetry\/|[^']*\/otlp\/otlp\.ts)/m.test(
      readFileSync(join(root, file), 'utf8'),
    ),
  );
  expect(importing).toContain('telemetry/otlp/otlp.ts');
  expect(importing.filter((file) => !file.startsWith('telemetry/otlp/'))).toEqual([]);
});
