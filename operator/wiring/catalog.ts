import type { Settings, SettingsStore } from '../config/settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import { buildCatalog, type Catalog, type MetricDefinition } from '../model/catalog.ts';

/**
 * The catalogue of the settings and of the Prometheus metrics in force; the last good one when a policy
 * declares a metric that cannot be.
 */
export function createLiveCatalog(
  settings: SettingsStore,
  prometheus: () => readonly MetricDefinition[],
  logger: Logger,
): () => Catalog {
  let asked: readonly MetricDefinition[] | undefined;
  let declared: Settings['metering']['customMetrics'] | undefined;
  let catalog: Catalog | undefined;
  return () => {
    const { customMetrics } = settings.current().metering;
    const queried = prometheus();
    if (catalog !== undefined && customMetrics === declared && queried === asked) return catalog;
    declared = customMetrics;
    asked = queried;
    const outcome = buildCatalog(customMetrics, queried);
    if (outcome.kind === 'catalog') catalog = outcome.catalog;
    else for (const problem of outcome.problems) logger.error(`[controller] ${problem}`);
    catalog ??= collectorCatalog();
    return catalog;
  };
}

function collectorCatalog(): Catalog {
  const outcome = buildCatalog([]);
  if (outcome.kind === 'catalog') return outcome.catalog;
  throw new Error(`catalogue: ${outcome.problems.join('; ')}`);
}
