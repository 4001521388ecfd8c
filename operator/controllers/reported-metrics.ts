import { type CustomMetric, INGEST_METRICS, isGeneralDimension } from '../model/catalog.ts';
import type { CloudEventRule } from '../model/cloud-event-rule.ts';
import { invalid, type ParseProblem } from '../settings/parsers/parser.ts';

/**
 * Returns the problem of a rule whose metric is unknown, or has another unit or other dimensions;
 * undefined if there is none. The metrics are those of AI gateways and custom ones.
 */
export function reportedMetricProblem(
  rules: readonly CloudEventRule[],
  customMetrics: readonly CustomMetric[],
): ParseProblem | undefined {
  const known = new Map(
    [...INGEST_METRICS, ...customMetrics].map(({ code, unit, dimensions }) => [
      code,
      { unit, dimensions: new Set<string>(dimensions) },
    ]),
  );
  for (const [index, { metrics = [] }] of rules.entries()) {
    for (const [position, { metric, unit, dimensions }] of metrics.entries()) {
      const at = `[${index}].metrics[${position}]`;
      const found = known.get(metric);
      if (found === undefined) {
        const fix = 'declare it in spec.customMetrics or CUSTOM_METRICS';
        return { ...invalid('unknown metric', fix, metric), at: `${at}.metric` };
      }
      if (unit !== undefined && unit !== found.unit) {
        const fix = `give a value in ${found.unit}, or declare a metric in ${unit}`;
        return { ...invalid(`not the unit of ${metric}`, fix, unit), at: `${at}.unit` };
      }
      const other = Object.keys(dimensions).find(
        (key) => !found.dimensions.has(key) && !isGeneralDimension(key),
      );
      if (other === undefined) continue;
      const fix = 'declare it with the metric';
      return { ...invalid(`no dimension of ${metric}`, fix, other), at: `${at}.dimensions` };
    }
  }
  return undefined;
}
