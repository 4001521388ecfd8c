import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import type { PrometheusSettings, Settings, SettingsStore } from '../settings/settings.ts';
import { type Ledger, LedgerReadError } from '../ledger/ledger.ts';
import { errorText } from '../model/error-text.ts';
import type { Observation } from '../metering/timelines/observation.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { CONNECTIONS } from '../prometheus/query.ts';
import {
  type ConfiguredMetric,
  createConfiguredMeasure,
  definitionOf,
} from '../prometheus/configured-metric.ts';
import { createEgressMeasure, createUtilizationMeasure } from '../prometheus/built-in-measures.ts';
import type { Measure } from '../prometheus/measure.ts';
import { MetricsFile, loadMetricsFile } from '../prometheus/metrics-file-watch.ts';
import { PrometheusClient } from '../prometheus/prometheus-client.ts';
import { forgetPrometheusWork, PrometheusMetering } from '../prometheus/prometheus-metering.ts';
import { createPrometheusMetrics } from '../prometheus/prometheus-metrics.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Collector } from '../metering/windows/collector.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import { aborted, type Component } from './components.ts';

type LoadedMetrics =
  | { readonly kind: 'metrics'; readonly metrics: readonly ConfiguredMetric[] }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

/** Reads the metrics of PROMETHEUS_METRICS_FILE. A broken file is a configuration error. */
export async function loadConfiguredMetrics(settings: Settings): Promise<LoadedMetrics> {
  const { metricsFile } = settings.prometheus;
  if (metricsFile === undefined) return { kind: 'metrics', metrics: [] };
  return loadMetricsFile(metricsFile, codesOf(settings));
}

/** Returns the metrics that a file adds to the catalogue, and the component that follows it. */
export function createConfiguredMetrics(options: {
  readonly initial: readonly ConfiguredMetric[];
  readonly path: string | undefined;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly clock: Clock;
  readonly logger: Logger;
}) {
  const { initial, path, settings } = options;
  const file =
    path === undefined
      ? undefined
      : new MetricsFile({ ...options, path, taken: () => codesOf(settings.current()) });
  const metrics = (): readonly ConfiguredMetric[] => file?.metrics() ?? initial;
  const definitions = remembered(metrics, (list) => list.map(definitionOf));
  const components: readonly Component[] =
    file === undefined ? [] : [{ name: 'Prometheus metrics file', run: (s) => file.run(s) }];
  return {
    metrics,
    /** The same list until the file changes. */
    definitions,
    components,
  };
}

/** Pause between attempts to read pending work. */
const READ_AGAIN_MS = 1_000;

export interface Prometheus {
  gaps(): readonly Gap[];
  report: PrometheusMetering['report'];
  question: PrometheusMetering['question'];
  readonly component: Component;
}

/**
 * Egress, utilisation and configured metrics, while a Prometheus is configured. Another server, or
 * other credentials, apply as after a restart: pending work is in the ledger.
 */
export function createPrometheus(options: {
  readonly outbound: Outbound;
  readonly configured: ReturnType<typeof createConfiguredMetrics>;
  readonly observation: Pick<Observation, 'tenantClusters'>;
  readonly windows: Pick<Collector, 'lastWindow'>;
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly ledger: Pick<Ledger, 'append' | 'stats' | 'record' | 'records' | 'writeRecords'>;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}): Prometheus {
  const { configured, settings, ledger } = options;
  const metrics = createPrometheusMetrics(options.registry);
  let metering: PrometheusMetering | undefined;

  const meter = async (url: string, server: PrometheusSettings, signal: AbortSignal) => {
    const client = new PrometheusClient({
      outbound: options.outbound,
      url,
      settings: server,
      readText: (path) => readFile(path, 'utf8'),
      connections: CONNECTIONS,
    });
    const builtIn = [createEgressMeasure(server.preset), createUtilizationMeasure(server.preset)];
    metering = new PrometheusMetering({
      ...options,
      client,
      measures: remembered<readonly ConfiguredMetric[], readonly Measure[]>(
        () => configured.metrics(),
        (list) => [...builtIn, ...list.map(createConfiguredMeasure)],
      ),
      tenantClusters: options.observation.tenantClusters,
      lastWindow: () => options.windows.lastWindow,
      settings: () => settings.current(),
      metrics,
    });
    const end = await metering.run(signal);
    await client.close();
    if (end.kind === 'ledger') throw new Error(end.reason);
  };

  const run = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const { prometheus } = settings.current();
      const other = new AbortController();
      const leave = settings.subscribe((next) => {
        if (next.prometheus !== prometheus) other.abort();
      });
      const either = AbortSignal.any([signal, other.signal]);
      try {
        if (prometheus.url === undefined) {
          metering = undefined;
          await forgetPrometheusWork(ledger);
          await aborted(either);
        } else {
          await meter(prometheus.url, prometheus, either);
        }
      } catch (error) {
        // An unreachable database at the start must not end the only process that meters.
        if (!isPassing(error)) throw error;
        options.logger.warn(`[prometheus] ${errorText(error)}`);
        await options.clock.sleep(READ_AGAIN_MS, either).catch(() => undefined);
      } finally {
        leave();
      }
    }
  };
  return {
    gaps: () => metering?.gaps() ?? [],
    report: () => metering?.report() ?? { leftOut: [] },
    question: (event) => metering?.question(event),
    component: { name: 'Prometheus', run },
  };
}

function isPassing(error: unknown): boolean {
  return error instanceof LedgerReadError && error.failure.cause === 'retryable';
}

function codesOf({ metering }: Settings): ReadonlySet<string> {
  return new Set(metering.customMetrics.map(({ code }) => code));
}

/** Returns a function that caches `make(value())` until the value changes. */
function remembered<T, R>(value: () => T, make: (value: T) => R): () => R {
  let last: { readonly of: T; readonly made: R } | undefined;
  return () => {
    const of = value();
    if (last === undefined || last.of !== of) last = { of, made: make(of) };
    return last.made;
  };
}
