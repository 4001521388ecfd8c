import {
  ROOT_CONTEXT,
  type Span as SdkSpan,
  SpanStatusCode,
  trace,
  type Tracer as SdkTracer,
} from '@opentelemetry/api';
import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { JsonMetricsSerializer, JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import { emptyResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  MeterProvider,
  type MetricProducer,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Registry } from 'prom-client';
import type { Clock } from '../clock.ts';
import type { TraceSpan, SpanAttributes, Tracer } from '../tracer.ts';
import { metricData } from './metric-data.ts';

/**
 * Sends a JSON body to a path of the OpenTelemetry collector. Returns why it failed, or undefined.
 * Never throws.
 */
export type OtlpPost = (path: string, body: Uint8Array) => Promise<string | undefined>;

interface OtlpOptions {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly post: OtlpPost;
  /** Milliseconds between two exports of metrics. */
  readonly intervalMs: number;
  /** Identifies the sender: resource attributes by the semantic conventions. */
  readonly resource: SpanAttributes;
  /** Called with the reason of a failed export, which is not retried. */
  readonly onFailure: (reason: string) => void;
}

const SCOPE = 'meterfeed';
const LONGEST_EXPORT_MS = 10_000;
/** See https://opentelemetry.io/docs/specs/otlp/#otlphttp-request. */
const METRICS_PATH = '/v1/metrics';
const TRACES_PATH = '/v1/traces';

/**
 * Exports metrics and traces to a collector with the OpenTelemetry SDK. This file is loaded only if
 * OTLP is configured.
 */
export function startOtlp(options: OtlpOptions): {
  readonly tracer: Tracer;
  /** Sends what is left and stops. */
  readonly close: () => Promise<void>;
} {
  const { registry, clock, intervalMs } = options;
  const resource = resourceFromAttributes(options.resource);
  const startedAt = clock.now();
  const producer: MetricProducer = {
    collect: async () => {
      const metrics = await metricData(registry, { from: startedAt, to: clock.now() });
      const scopeMetrics = [{ scope: { name: SCOPE }, metrics }];
      return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] };
    },
  };
  const meters = new MeterProvider({
    resource,
    readers: [
      new PeriodicExportingMetricReader({
        exporter: {
          ...exporter(options, METRICS_PATH, JsonMetricsSerializer),
          selectAggregationTemporality: () => AggregationTemporality.CUMULATIVE,
        },
        exportIntervalMillis: intervalMs,
        exportTimeoutMillis: Math.min(intervalMs, LONGEST_EXPORT_MS),
        metricProducers: [producer],
      }),
    ],
  });
  const spans = new TracerProvider({
    resource,
    spanProcessors: [
      new BatchSpanProcessor({ exporter: exporter(options, TRACES_PATH, JsonTraceSerializer) }),
    ],
  });
  const tracer = spans.getTracer(SCOPE);
  return {
    tracer: { begin: (name, attributes = {}) => started(tracer, name, attributes) },
    close: async () => {
      // Neither waits for the other. A failed export is reported, not thrown.
      await Promise.allSettled([meters.shutdown(), spans.shutdown()]);
    },
  };
}

/** The SDK's exporter of one signal. */
function exporter<T>(
  { post, onFailure }: OtlpOptions,
  path: string,
  serializer: { serializeRequest(batch: T): Uint8Array | undefined },
) {
  const send = async (batch: T): Promise<ExportResult> => {
    const body = serializer.serializeRequest(batch);
    const reason = body === undefined ? undefined : await post(path, body);
    if (reason === undefined) return { code: ExportResultCode.SUCCESS };
    onFailure(reason);
    return { code: ExportResultCode.FAILED };
  };
  return {
    export: (batch: T, done: (result: ExportResult) => void): void => {
      void (async () => done(await send(batch)))();
    },
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
}

function started(
  tracer: SdkTracer,
  name: string,
  attributes: SpanAttributes,
  parent?: SdkSpan,
): TraceSpan {
  const context = parent === undefined ? ROOT_CONTEXT : trace.setSpan(ROOT_CONTEXT, parent);
  const span = tracer.startSpan(name, { attributes }, context);
  return {
    child: (childName, given = {}) => started(tracer, childName, given, span),
    end: (given = {}, problem) => {
      span.setAttributes(given);
      if (problem !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: problem });
      span.end();
    },
  };
}
