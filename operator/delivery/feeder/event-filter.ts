import type { MetricFilter } from '../../settings/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';

/** A destination's default choice of metrics. It counts if the settings name none. */
type Choice = Pick<Destination, 'accepts'>;

/**
 * Creates the filter of events for a destination (docs/how-to/destinations.md#which-metrics):
 *
 * 1. A metric in `exclude` is not sent.
 * 2. With an `include`, only its metrics are sent.
 * 3. Without one, the destination's default choice counts.
 *
 * A metric whose declaration was removed from the catalogue counts as a custom metric.
 */
export function createEventFilter(
  destination: Choice,
  filter: MetricFilter | undefined,
  find: (code: string) => MetricDefinition | undefined,
): (event: Pick<UsageEvent, 'metric' | 'unit'>) => boolean {
  const choice = { accepts: destination.accepts.bind(destination) };
  return (event) => wants(find(event.metric) ?? forgottenMetric(event), choice, filter);
}

/** Returns the metrics of the catalogue that a destination gets. */
export function wantedMetrics(
  catalog: readonly MetricDefinition[],
  destination: Choice,
  filter: MetricFilter | undefined,
): readonly MetricDefinition[] {
  return catalog.filter((metric) => wants(metric, destination, filter));
}

/**
 * Returns the codes in the settings that are not in the catalogue, each once: a misspelled code, or
 * a metric that is declared later.
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
