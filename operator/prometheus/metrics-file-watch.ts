import { readFile, stat } from 'node:fs/promises';
import { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ConfiguredMetric } from './configured-metric.ts';
import { readMetricsFile, type ReadMetricsFile } from './metrics-file.ts';

const POLL_MS = 10_000;
/** Larger files are refused unread. The reader has a stricter limit. */
const MOST_BYTES = 1024 * 1024;

/** Reads and validates the file at the start. */
export async function loadMetricsFile(
  path: string,
  taken: ReadonlySet<string>,
): Promise<ReadMetricsFile> {
  const where = `PROMETHEUS_METRICS_FILE: cannot be read: "${path}"`;
  try {
    const { size } = await stat(path);
    if (size <= MOST_BYTES) return readMetricsFile(await readFile(path, 'utf8'), taken);
    return { kind: 'invalid', problems: [`${where}: ${size} bytes; at most ${MOST_BYTES}`] };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
    return { kind: 'invalid', problems: [`${where}: ${code}; mount a readable file there`] };
  }
}

/**
 * The metrics of PROMETHEUS_METRICS_FILE in force. A mounted file changes by swapping a link, so it
 * is polled instead of watched.
 */
export class MetricsFile {
  readonly #path: string;
  readonly #taken: () => ReadonlySet<string>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #metrics: readonly ConfiguredMetric[];

  constructor(options: {
    readonly path: string;
    /** The metrics of the file at the start. */
    readonly initial: readonly ConfiguredMetric[];
    /** The codes of CUSTOM_METRICS in force. */
    readonly taken: () => ReadonlySet<string>;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#path = options.path;
    this.#taken = options.taken;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#metrics = options.initial;
  }

  /** Returns the same list until the file changes. */
  metrics(): readonly ConfiguredMetric[] {
    return this.#metrics;
  }

  /** Follows the file until the signal aborts. An invalid file changes nothing and is logged. */
  async run(signal: AbortSignal): Promise<void> {
    const log = new CauseLog(this.#logger, this.#clock);
    while (!signal.aborted) {
      await this.#clock.sleep(POLL_MS, signal).catch(() => undefined);
      if (!signal.aborted) await this.#poll(log);
    }
  }

  async #poll(log: CauseLog): Promise<void> {
    const outcome = await loadMetricsFile(this.#path, this.#taken());
    if (outcome.kind === 'invalid') {
      for (const problem of outcome.problems) {
        log.warn(problem, `[metrics] prometheus: ${problem}; the last good file stays in force`);
      }
      return;
    }
    if (JSON.stringify(outcome.metrics) === JSON.stringify(this.#metrics)) return;
    this.#metrics = outcome.metrics;
    const count = outcome.metrics.length;
    this.#logger.info(`[metrics] prometheus: PROMETHEUS_METRICS_FILE: ${count} metrics in force`);
  }
}
