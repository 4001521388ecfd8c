import type { MeterReport } from '../fleet/meter-report.ts';
import { BUILT_IN_CATALOG, buildCatalog, catalogOf, type Catalog } from '../../model/catalog.ts';

type ReportedMetrics = Pick<MeterReport, 'customMetrics' | 'measuredMetrics'>;

const NO_METRICS: ReportedMetrics = { customMetrics: [], measuredMetrics: [] };

/**
 * Returns the catalogue of a stream from the report of its meter. Before the first report it has
 * the collector's metrics only.
 */
export function streamCatalog(report: () => ReportedMetrics | undefined): () => Catalog {
  let made: { readonly by: string; readonly catalog: Catalog } | undefined;
  let reported: { readonly metrics: ReportedMetrics; readonly catalog: Catalog } | undefined;
  const catalogOf = ({ customMetrics, measuredMetrics }: ReportedMetrics): Catalog => {
    const by = JSON.stringify([customMetrics, measuredMetrics]);
    if (made?.by === by) return made.catalog;
    const outcome = buildCatalog(customMetrics, measuredMetrics);
    // A meter's own catalogue is valid. An invalid one comes from a program with other metrics.
    const catalog =
      outcome.kind === 'catalog' ? outcome.catalog : (made?.catalog ?? BUILT_IN_CATALOG);
    made = { by, catalog };
    return catalog;
  };
  return () => {
    const metrics = report() ?? NO_METRICS;
    // Called for every event, so the catalogue is cached.
    if (reported?.metrics !== metrics) reported = { metrics, catalog: catalogOf(metrics) };
    return reported.catalog;
  };
}

/** The metrics of all streams. Of one metric in two streams the first definition counts. */
export function fleetCatalog(all: readonly Catalog[]): Catalog {
  const byCode = new Map(BUILT_IN_CATALOG.metrics.map((metric) => [metric.code, metric]));
  for (const metric of all.flatMap(({ metrics }) => metrics)) {
    if (!byCode.has(metric.code)) byCode.set(metric.code, metric);
  }
  return catalogOf(byCode);
}
