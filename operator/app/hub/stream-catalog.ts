import type { MeterReport } from '../fleet/meter-report.ts';
import { buildCatalog, type Catalog } from '../../model/catalog.ts';

type OwnMetrics = Pick<MeterReport, 'customMetrics' | 'measuredMetrics'>;

const NO_METRICS: OwnMetrics = { customMetrics: [], measuredMetrics: [] };

/** The catalogue of a stream, as its meter tells of it; the collector's metrics alone until it does. */
export function streamCatalog(report: () => OwnMetrics | undefined): () => Catalog {
  let made: { readonly by: string; readonly catalog: Catalog } | undefined;
  let reported: { readonly metrics: OwnMetrics; readonly catalog: Catalog } | undefined;
  const catalogOf = ({ customMetrics, measuredMetrics }: OwnMetrics): Catalog => {
    const by = JSON.stringify([customMetrics, measuredMetrics]);
    if (made?.by === by) return made.catalog;
    const outcome = buildCatalog(customMetrics, measuredMetrics);
    // A meter has a catalogue that works: another is of a program that has other metrics.
    const catalog = outcome.kind === 'catalog' ? outcome.catalog : (made?.catalog ?? plain());
    made = { by, catalog };
    return catalog;
  };
  return () => {
    const metrics = report() ?? NO_METRICS;
    // It is asked for every event.
    if (reported?.metrics !== metrics) reported = { metrics, catalog: catalogOf(metrics) };
    return reported.catalog;
  };
}

/** The metrics of all streams. One that two of them have counts as the first has it. */
export function fleetCatalog(all: readonly Catalog[]): Catalog {
  const byCode = new Map(plain().metrics.map((metric) => [metric.code, metric]));
  for (const metric of all.flatMap(({ metrics }) => metrics)) {
    if (!byCode.has(metric.code)) byCode.set(metric.code, metric);
  }
  return { metrics: [...byCode.values()], find: (code) => byCode.get(code) };
}

function plain(): Catalog {
  const outcome = buildCatalog([]);
  if (outcome.kind === 'catalog') return outcome.catalog;
  throw new Error(`catalogue: ${outcome.problems.join('; ')}`);
}
