import { expect, test } from 'vitest';
import { buildCatalog, BUILT_IN_METRICS, COLLECTOR_METRICS, isMeasured } from './catalog.ts';

const tokens = { code: 'tokens_used', unit: 'tokens', dimensions: ['model'] };

test('the nine billable metrics and their fields are those of the specification', () => {
  const fields = COLLECTOR_METRICS.map((metric) => [metric.code, metric.aggregationField]);
  expect(Object.fromEntries(fields)).toStrictEqual({
    tenant_cpu_core_hours: 'cpu_core_hours',
    tenant_memory_gb_hours: 'memory_gb_hours',
    tenant_storage_gb_hours: 'storage_gb_hours',
    tenant_instance_hours: 'instance_hours',
    tenant_gpu_hours: 'gpu_hours',
    tenant_gpu_utilization: 'gpu_util_score',
    tenant_network_egress_gb: 'egress_gb',
    tenant_lb_hours: 'lb_hours',
    tenant_private_node_hours: 'private_node_hours',
    tenant_gpu_downtime_hours: 'gpu_downtime_hours',
  });
});

test('tokens of AI gateways are in every catalogue, and anyone with a token may push them', () => {
  const outcome = buildCatalog([]);
  if (outcome.kind === 'invalid') throw new Error(outcome.problems.join());
  const find = (code: string) => outcome.catalog.find(code);
  expect(find('tenant_inference_tokens')).toMatchObject({
    unit: 'tokens',
    source: 'ingest',
    informational: false,
    dimensions: ['model', 'provider', 'token_type', 'context_tier', 'service_tier'],
  });
  expect(find('tenant_inference_requests')).toMatchObject({
    unit: 'requests',
    dimensions: ['model', 'provider', 'context_tier', 'service_tier'],
  });
  const codes = ['tenant_inference_tokens', 'tenant_gpu_hours', 'unknown'];
  expect(codes.map((code) => isMeasured(find(code)))).toStrictEqual([false, true, true]);
});

test('a custom metric joins the catalogue after the built-in ones', () => {
  const outcome = buildCatalog([tokens]);
  if (outcome.kind === 'invalid') throw new Error(outcome.problems.join());
  expect(outcome.catalog.metrics).toHaveLength(BUILT_IN_METRICS.length + 1);
  expect(outcome.catalog.find('tokens_used')).toMatchObject({
    unit: 'tokens',
    aggregationField: 'tokens_used',
    source: 'custom',
    informational: false,
    dimensions: ['model'],
  });
  expect(outcome.catalog.find('toString')).toBeUndefined();
});

test('two metrics of one code would be billed as one: every collision is named at once', () => {
  const fromFile = { ...COLLECTOR_METRICS[0], ...tokens, source: 'prometheus' } as const;
  const outcome = buildCatalog(
    [tokens, { ...tokens, code: 'tenant_lb_hours' }],
    [fromFile as (typeof COLLECTOR_METRICS)[number]],
  );
  expect(outcome).toStrictEqual({
    kind: 'invalid',
    problems: [
      'metric code already used by the collector: CUSTOM_METRICS or spec.customMetrics: "tenant_lb_hours"',
      'metric code already used by CUSTOM_METRICS or spec.customMetrics: PROMETHEUS_METRICS_FILE: "tokens_used"',
    ],
  });
});
