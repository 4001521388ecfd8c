import { type HrTime, ValueType } from '@opentelemetry/api';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
} from '@opentelemetry/sdk-metrics';
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client';
import type { TimeRange } from '../../model/window.ts';

type PrometheusMetric = MetricObjectWithValues<MetricValue<string>>;
/** Values of a histogram or a summary have the name of their series. */
type Value = MetricValue<string> & { readonly metricName?: string };

const UPPER_BOUND = 'le';

/**
 * All metrics of `/metrics` with the same names and labels, in the SDK's export format
 * (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/). Values that
 * are not numbers are left out.
 */
export async function metricData(registry: Registry, period: TimeRange): Promise<MetricData[]> {
  const sources = await registry.getMetricsAsJSON();
  return sources.flatMap((source) => dataOf(source, period));
}

function dataOf(source: PrometheusMetric, period: TimeRange): readonly MetricData[] {
  // prom-client's type declares numbers, but the value is a name.
  const type = String(source.type);
  const values: readonly Value[] = source.values.filter(({ value }) => Number.isFinite(value));
  const cumulative = { aggregationTemporality: AggregationTemporality.CUMULATIVE };
  if (type === 'histogram') {
    const dataPoints = histogramPoints(source.name, values, period);
    const dataPointType = DataPointType.HISTOGRAM;
    return [{ ...cumulative, descriptor: descriptorOf(source), dataPointType, dataPoints }];
  }
  if (type === 'counter') {
    const dataPoints = values.map((value) => point(value.labels, value.value, period));
    const sum = { dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints } as const;
    return [{ ...cumulative, descriptor: descriptorOf(source), ...sum }];
  }
  const byName = Map.groupBy(values, ({ metricName }) => metricName ?? source.name);
  return [...byName].map(([name, samples]) => ({
    ...cumulative,
    descriptor: descriptorOf({ ...source, name }),
    dataPointType: DataPointType.GAUGE,
    dataPoints: samples.map((value) => point(value.labels, value.value, period)),
  }));
}

function descriptorOf({ name, help }: Pick<PrometheusMetric, 'name' | 'help'>) {
  return { name, description: help, unit: '', valueType: ValueType.DOUBLE };
}

function histogramPoints(
  name: string,
  values: readonly Value[],
  period: TimeRange,
): DataPoint<Histogram>[] {
  const series = Map.groupBy(values, ({ labels }) =>
    JSON.stringify(Object.entries(labels).filter(([label]) => label !== UPPER_BOUND)),
  );
  return [...series.values()].map((samples) => {
    const buckets = samples
      .filter(({ metricName }) => metricName === `${name}_bucket`)
      .map(({ labels, value }) => ({ bound: Number(labels[UPPER_BOUND]), value }))
      .toSorted((a, b) => a.bound - b.bound);
    const valueOf = (suffix: string): number =>
      samples.find(({ metricName }) => metricName === `${name}_${suffix}`)?.value ?? 0;
    const { [UPPER_BOUND]: _, ...labels } = samples[0]?.labels ?? {};
    const count = valueOf('count');
    const finite = buckets.filter(({ bound }) => Number.isFinite(bound));
    // Prometheus counts values up to each bound, OTLP counts values between two bounds.
    const upTo = [...finite.map(({ value }) => value), count];
    const counts = upTo.map((value, index) => value - (upTo[index - 1] ?? 0));
    const boundaries = finite.map(({ bound }) => bound);
    return point(labels, { buckets: { boundaries, counts }, sum: valueOf('sum'), count }, period);
  });
}

function point<T>(labels: Value['labels'], value: T, { from, to }: TimeRange): DataPoint<T> {
  const attributes = Object.fromEntries(
    Object.entries(labels).map(([name, text]) => [name, String(text)]),
  );
  return { attributes, value, startTime: hrTime(from), endTime: hrTime(to) };
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
