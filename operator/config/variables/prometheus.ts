import { headers } from '../parsers/headers.ts';
import { queryTemplate } from '../parsers/queries.ts';
import { absolutePath, choice } from '../parsers/scalars.ts';
import { prometheusUrl } from '../parsers/urls.ts';
import { SETTINGS_TEST, type Variable } from './variable.ts';

/** Egress, GPU utilization and metrics of one's own out of Prometheus (spec 1.1, 2.2). */
export const PROMETHEUS_VARIABLES = {
  PROMETHEUS_URL: {
    meaning:
      'A Prometheus-compatible HTTP query API; enables egress and GPU utilization. Basic credentials in it are accepted.',
    parser: prometheusUrl(),
    shown: 'url',
    test: SETTINGS_TEST,
  },
  PROMETHEUS_HEADERS: {
    meaning: 'Headers added to queries, such as a tenant id or `Authorization`.',
    parser: headers(),
    shown: 'masked',
    test: SETTINGS_TEST,
  },
  PROMETHEUS_BEARER_TOKEN_FILE: {
    meaning: 'File with a bearer token, read again on every query.',
    parser: absolutePath(),
    test: SETTINGS_TEST,
  },
  PROMETHEUS_PRESET: {
    meaning:
      'Which labels the built-in queries select by; `vcluster-platform` takes those of the platform’s instance and project.',
    parser: choice('default', 'vcluster-platform'),
    default: 'default',
    test: SETTINGS_TEST,
  },
  PROMETHEUS_METRICS_FILE: {
    meaning:
      'File that defines metrics by queries, evaluated per tenant cluster at every window end.',
    parser: absolutePath(),
    test: SETTINGS_TEST,
  },
  EGRESS_QUERY: {
    meaning: 'Replaces the built-in query for egress bytes.',
    parser: queryTemplate(),
    otherwise: 'increase of the transmitted-bytes counter',
    test: SETTINGS_TEST,
  },
  GPU_UTIL_QUERY: {
    meaning: 'Replaces the built-in query for GPU utilization, grouped by model name or gpu_type.',
    parser: queryTemplate(),
    otherwise: 'GPU telemetry',
    test: SETTINGS_TEST,
  },
  GPU_COUNT_QUERY: {
    meaning: 'Replaces the built-in query for the number of GPUs that utilization covers.',
    parser: queryTemplate(),
    otherwise: 'GPU telemetry',
    test: SETTINGS_TEST,
  },
} as const satisfies Record<string, Variable>;
