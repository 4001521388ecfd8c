import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import type { PrometheusSettings, Settings, SettingsStore } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Observation } from '../observation/observation.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { CONNECTIONS } from '../prometheus/ask.ts';
import {
  type ConfiguredMetric,
  createConfiguredMeasure,
  definitionOf,
} from '../prometheus/configured-metric.ts';
import { createEgressMeasure } from '../prometheus/egress.ts';
import type { Measure } from '../prometheus/measure.ts';
import { createMetricsFile, loadMetricsFile } from '../prometheus/metrics-file-watch.ts';
import { createPrometheusClient } from '../prometheus/prometheus-client.ts';
import {
  createPrometheusMetering,
  forgetPrometheusWork,
  type PrometheusMetering,
} from '../prometheus/prometheus-metering.ts';
import { createPrometheusMetrics } from '../prometheus/prometheus-metrics.ts';
import { createUtilizationMeasure } from '../prometheus/utilization.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { MetricDefinition } from '../model/catalog.ts';
import type { WindowsView } from '../windows/collector.ts';
import type { Gap } from '../windows/gaps.ts';
import { aborted, type Part } from './parts.ts';

export type LoadedMetrics =
  | { readonly kind: 'metrics'; readonly metrics: readonly ConfiguredMetric[] }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

/** The metrics of PROMETHEUS_METRICS_FILE as the operator starts: a broken file is an error of configuration. */
export async function loadConfiguredMetrics(settings: Settings): Promise<LoadedMetrics> {
  const { metricsFile, url } = settings.prometheus;
  if (metricsFile === undefined) return { kind: 'metrics', metrics: [] };
  if (url === undefined) {
    const problem = 'PROMETHEUS_METRICS_FILE: nobody to ask: PROMETHEUS_URL: not set; set it';
    return { kind: 'invalid', problems: [problem] };
  }
  return loadMetricsFile(metricsFile, codesOf(settings));
}

/** The metrics that a file adds to the catalogue, and who follows the file. */
export interface ConfiguredMetrics {
  metrics(): readonly ConfiguredMetric[];
  /** The same list until the file changes. */
  definitions(): readonly MetricDefinition[];
  readonly parts: readonly Part[];
}

export interface ConfiguredMetricsOptions {
  readonly initial: readonly ConfiguredMetric[];
  readonly path: string | undefined;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function createConfiguredMetrics(options: ConfiguredMetricsOptions): ConfiguredMetrics {
  const { initial, path, settings } = options;
  const file =
    path === undefined
      ? undefined
      : createMetricsFile({ ...options, path, taken: () => codesOf(settings.current()) });
  const metrics = () => file?.metrics() ?? initial;
  const definitions = remembered(metrics, (list) => list.map(definitionOf));
  return {
    metrics,
    definitions,
    parts: file === undefined ? [] : [{ name: 'Prometheus metrics file', run: (s) => file.run(s) }],
  };
}

export interface PrometheusOptions {
  readonly environment: PrometheusSettings;
  readonly outbound: Outbound;
  readonly configured: ConfiguredMetrics;
  readonly observation: Pick<Observation, 'tenantClusters'>;
  readonly windows: Pick<WindowsView, 'lastWindow'>;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly ledger: Ledger;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

export interface Prometheus {
  gaps(): readonly Gap[];
  question: PrometheusMetering['question'];
  readonly parts: readonly Part[];
}

/** Egress, utilisation and configured metrics, where PROMETHEUS_URL is set. */
export function createPrometheus(options: PrometheusOptions): Prometheus {
  const { environment, configured, settings, ledger } = options;
  const { url } = environment;
  if (url === undefined) {
    const forget: Part = {
      name: 'Prometheus',
      run: async (signal) => {
        await forgetPrometheusWork(ledger);
        await aborted(signal);
      },
    };
    return { gaps: () => [], question: () => undefined, parts: [forget] };
  }
  const client = createPrometheusClient({
    outbound: options.outbound,
    url,
    settings: environment,
    readText: (path) => readFile(path, 'utf8'),
    connections: CONNECTIONS,
  });
  const builtIn = [
    createEgressMeasure(environment.preset),
    createUtilizationMeasure(environment.preset),
  ];
  const metering = createPrometheusMetering({
    ...options,
    client,
    measures: remembered<readonly ConfiguredMetric[], readonly Measure[]>(
      () => configured.metrics(),
      (metrics) => [...builtIn, ...metrics.map(createConfiguredMeasure)],
    ),
    tenantClusters: options.observation.tenantClusters,
    lastWindow: () => options.windows.lastWindow,
    settings: () => settings.current(),
    metrics: createPrometheusMetrics(options.registry),
  });
  const close = () => client.close();
  return {
    gaps: () => metering.gaps(),
    question: (event) => metering.question(event),
    parts: [...configured.parts, part(metering, close)],
  };
}

function part(metering: PrometheusMetering, close: () => Promise<void>): Part {
  return {
    name: 'Prometheus',
    run: async (signal) => {
      const end = await metering.run(signal);
      await close();
      if (end.kind === 'ledger') throw new Error(end.reason);
    },
  };
}

function codesOf({ metering }: Settings): ReadonlySet<string> {
  return new Set(metering.customMetrics.map(({ code }) => code));
}

/** What is made of a value, made anew only when the value is another one. */
function remembered<T, R>(value: () => T, make: (value: T) => R): () => R {
  let last: { readonly of: T; readonly made: R } | undefined;
  return () => {
    const of = value();
    if (last === undefined || last.of !== of) last = { of, made: make(of) };
    return last.made;
  };
}
