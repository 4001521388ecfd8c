import type { MetricFilter } from '../../settings/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';

/** A destination's own choice of metrics, which holds where its settings name none. */
type Choice = Pick<Destination, 'accepts'>;

/**
 * Whether a destination gets an event: `exclude` wins over `include`; where there is an `include`,
 * nothing else is sent, and where there is none, the destination's own choice is
 * (docs/how-to/destinations.md#which-metrics). A metric that the catalogue has forgotten, since its declaration
 * was removed, is offered as the custom metric it was.
 */
export function createEventFilter(
  destination: Choice,
  filter: MetricFilter | undefined,
  find: (code: string) => MetricDefinition | undefined,
): (event: Pick<UsageEvent, 'metric' | 'unit'>) => boolean {
  const choice = { accepts: destination.accepts.bind(destination) };
  return (event) => wants(find(event.metric) ?? forgottenMetric(event), choice, filter);
}

/** The metrics that a destination is to prepare for. */
export function wantedMetrics(
  catalog: readonly MetricDefinition[],
  destination: Choice,
  filter: MetricFilter | undefined,
): readonly MetricDefinition[] {
  return catalog.filter((metric) => wants(metric, destination, filter));
}

/**
 * What the settings name and the catalogue lacks, each code once: misspelled, or a metric that is
 * declared later.
 */
export function unknownMetrics(
  filter: MetricFilter | undefined,
  find: (code: string) => MetricDefinition | undefined,
): readonly string[] {
  const named = new Set([...(filter?.include ?? []), ...(filter?.exclude ?? [])]);
  return [...named].filter((code) => find(code) === undefined);
}

function wants(
  metric: MetricDefinition,
  destination: Choice,
  filter: MetricFilter | undefined,
): boolean {
  if (filter?.exclude?.includes(metric.code) === true) return false;
  return filter?.include?.includes(metric.code) ?? destination.accepts(metric);
}

function forgottenMetric({ metric, unit }: Pick<UsageEvent, 'metric' | 'unit'>): MetricDefinition {
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
