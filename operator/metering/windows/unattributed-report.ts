import type { Diagnostics } from '../meters/meter-reports.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import { toSeconds } from './gpu-report.ts';

/** Objects without an owner, unbilled (docs/reference/troubleshooting.md#unattributed-usage). */
export interface UnattributedReport {
  readonly total: number;
  /** The ten objects with the most GPU time: `namespace/name: reason (12 GPU-seconds)`. */
  readonly items: readonly string[];
  /** GPU time of these objects; absent if the scope `gpus` was not closed. */
  readonly gpus?: { readonly seconds: number; readonly objects: number };
}

const SHOWN = 10;

export function unattributedReport(
  { unattributed }: Pick<Diagnostics, 'unattributed'>,
  hasGpus: boolean,
): UnattributedReport {
  const objects = [...unattributed].toSorted(([, a], [, b]) => Number(b.gpu - a.gpu));
  const withGpus = objects.filter(([, { gpu }]) => gpu > 0n);
  const seconds = toSeconds(withGpus.reduce((sum, [, { gpu }]) => sum + gpu, 0n));
  return {
    total: objects.length,
    items: objects.slice(0, SHOWN).map(([name, { reason, gpu }]) => {
      return `${name}: ${reason}${gpu > 0n ? ` (${toSeconds(gpu)} GPU-seconds)` : ''}`;
    }),
    gpus: hasGpus ? { seconds, objects: withGpus.length } : undefined,
  };
}

/** Reports GPU time that nobody is billed for: metrics for every window, a log line per change. */
export class UnattributedWatch {
  readonly #metrics: Pick<CollectorMetrics, 'unattributedObjects' | 'unattributedGpuSeconds'>;
  readonly #logger: Logger;
  /** Namespaces and reasons of the last log line. Single pods are left out: they come and go. */
  #causes = '';

  constructor(
    metrics: Pick<CollectorMetrics, 'unattributedObjects' | 'unattributedGpuSeconds'>,
    logger: Logger,
  ) {
    this.#metrics = metrics;
    this.#logger = logger;
  }

  /** Adds the findings of a window in which GPUs were measured. */
  note(
    windowEnd: string,
    report: UnattributedReport,
    { unattributed }: Pick<Diagnostics, 'unattributed'>,
  ): void {
    const metrics = this.#metrics;
    const logger = this.#logger;
    const { total, items, gpus = { seconds: 0, objects: 0 } } = report;
    metrics.unattributedObjects.set(total);
    metrics.unattributedGpuSeconds.inc(gpus.seconds);
    const causes = [...unattributed].flatMap(([name, { reason, gpu }]) =>
      gpu > 0n ? `${name.split('/')[0]}: ${reason}` : [],
    );
    const next = [...new Set(causes)].toSorted().join('\n');
    if (next === this.#causes) return;
    this.#causes = next;
    if (next === '') {
      logger.info('[metrics] no GPU time is unattributed any more');
      return;
    }
    const names = items.slice(0, gpus.objects).join(', ');
    const more = gpus.objects > SHOWN ? ` and ${gpus.objects - SHOWN} more` : '';
    logger.warn(
      `[metrics] window ${windowEnd.slice(11, 19)}: ${gpus.seconds} GPU-seconds are unattributed, and billed to nobody: ${names}${more}`,
    );
  }
}
