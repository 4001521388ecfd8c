import type { MetricFilter } from '../config/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import type { MetricDefinition } from '../model/catalog.ts';
import type { UsageEvent } from '../model/event.ts';

/**
 * Whether a destination gets an event: `exclude` wins over `include`, which wins over the
 * destination's own choice. A metric that the catalogue has forgotten, since its declaration was
 * removed, is offered as the custom metric it was.
 */
export function createEventFilter(
  destination: Pick<Destination, 'accepts'>,
  filter: MetricFilter | undefined,
  find: (code: string) => MetricDefinition | undefined,
): (event: UsageEvent) => boolean {
  return (event) => wants(find(event.metric) ?? forgottenMetric(event), destination, filter);
}

/** The metrics that a destination is to prepare for. */
export function wantedMetrics(
  catalog: readonly MetricDefinition[],
  destination: Pick<Destination, 'accepts'>,
  filter: MetricFilter | undefined,
): readonly MetricDefinition[] {
  return catalog.filter((metric) => wants(metric, destination, filter));
}

function wants(
  metric: MetricDefinition,
  destination: Pick<Destination, 'accepts'>,
  filter: MetricFilter | undefined,
): boolean {
  if (filter?.exclude?.includes(metric.code) === true) return false;
  return filter?.include?.includes(metric.code) === true || destination.accepts(metric);
}

function forgottenMetric({ metric, unit }: UsageEvent): MetricDefinition {
  return {
    code: metric,
    name: metric,
    unit,
    description: metric,
    aggregationField: metric,
    source: 'custom',
    informational: false,
    dimensions: [],
  };
}
