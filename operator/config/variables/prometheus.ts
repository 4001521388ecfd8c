import { headers } from '../parsers/credentials.ts';
import { queryTemplate } from '../query-template.ts';
import { absolutePath, choice } from '../parsers/scalars.ts';
import { prometheusUrl } from '../parsers/urls.ts';
import type { Variable } from './variable.ts';

/** Egress, GPU utilization and metrics of one's own out of Prometheus. */
export const PROMETHEUS_VARIABLES = {
  PROMETHEUS_URL: {
    meaning:
      'A Prometheus-compatible HTTP query API; enables egress and GPU utilization. Basic credentials in it are accepted.',
    parser: prometheusUrl(),
    shown: 'url',
    fields: ['MeteringPolicy spec.prometheus.url', 'MeteringPolicy spec.prometheus.basicAuth'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_HEADERS: {
    meaning: 'Headers added to queries, such as a tenant id or `Authorization`.',
    parser: headers(),
    shown: 'masked',
    fields: ['MeteringPolicy spec.prometheus.headers'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_BEARER_TOKEN_FILE: {
    meaning: 'File with a bearer token, read again on every query.',
    parser: absolutePath(),
    fields: ['MeteringPolicy spec.prometheus.bearerTokenSecretRef'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_PRESET: {
    meaning:
      'Which labels the built-in queries select by; `vcluster-platform` takes those of the platform’s instance and project.',
    parser: choice('default', 'vcluster-platform'),
    default: 'default',
    fields: ['MeteringPolicy spec.prometheus.preset'],
    test: 'operator/prometheus/real-prometheus.test.ts',
  },
  PROMETHEUS_METRICS_FILE: {
    meaning:
      'File that defines metrics by queries, evaluated per tenant cluster at every window end; its layout is in docs/metering.md. Followed while the operator runs.',
    parser: absolutePath(),
    test: 'operator/prometheus/metrics-file.test.ts',
  },
  EGRESS_QUERY: {
    meaning: 'Replaces the built-in query for egress bytes.',
    parser: queryTemplate(),
    otherwise: 'increase of the transmitted-bytes counter',
    fields: ['MeteringPolicy spec.egressQuery', 'TenantOverride spec.metering.egressQuery'],
    test: 'operator/prometheus/prometheus-metering.test.ts',
  },
  GPU_UTIL_QUERY: {
    meaning: 'Replaces the built-in query for GPU utilization, grouped by model name or gpu_type.',
    parser: queryTemplate(),
    otherwise: 'GPU telemetry',
    fields: ['MeteringPolicy spec.gpuUtilQuery', 'TenantOverride spec.metering.gpuUtilQuery'],
    test: 'operator/prometheus/prometheus-metering.test.ts',
  },
  GPU_COUNT_QUERY: {
    meaning: 'Replaces the built-in query for the number of GPUs that utilization covers.',
    parser: queryTemplate(),
    otherwise: 'GPU telemetry',
    fields: ['MeteringPolicy spec.gpuCountQuery', 'TenantOverride spec.metering.gpuCountQuery'],
    test: 'operator/prometheus/measures.test.ts',
  },
} as const satisfies Record<string, Variable>;
