import type { Settings, SettingsStore } from '../config/settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import { buildCatalog, type Catalog } from '../usage/catalog.ts';

/** The catalogue of the settings in force; the last good one when a policy declares a metric that cannot be. */
export function createLiveCatalog(settings: SettingsStore, logger: Logger): () => Catalog {
  let declared: Settings['metering']['customMetrics'] | undefined;
  let catalog: Catalog | undefined;
  return () => {
    const { customMetrics } = settings.current().metering;
    if (catalog !== undefined && customMetrics === declared) return catalog;
    declared = customMetrics;
    const outcome = buildCatalog(customMetrics);
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
