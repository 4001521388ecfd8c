import type { AppendBatch, EventOutcome, Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { TraceSpan } from '../../telemetry/tracer.ts';

/** Why appending stopped. */
export type AppendEnd =
  | { readonly kind: 'aborted' }
  /** The ledger is fenced or damaged. The process has to stop. */
  | { readonly kind: 'ledger'; readonly reason: string };

export type Appended =
  | { readonly kind: 'appended'; readonly outcomes: readonly EventOutcome[] }
  | AppendEnd;

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 30_000;

/** Appends a window's batch and retries for as long as it takes: a window is never dropped. */
export class Appender {
  readonly #options;
  #paused = false;

  constructor(options: {
    readonly ledger: Pick<Ledger, 'append' | 'stats'>;
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Logger;
    /** Shows how late the window is while the append fails. */
    readonly metrics?: Pick<CollectorMetrics, 'lagSeconds'>;
  }) {
    this.#options = options;
  }

  /**
   * Returns false while the volume is so full that windows have to wait
   * (docs/reference/ledger-format.md#disk-use). Logs each change once.
   */
  mayAppend(): boolean {
    const { ledger, logger } = this.#options;
    const full = ledger.stats().disk.level === 'collector-paused';
    if (full !== this.#paused && full) {
      logger.error('[controller] the ledger volume is full: windows wait; enlarge the volume');
    }
    if (full !== this.#paused && !full) {
      logger.info('[controller] the ledger volume has room again');
    }
    this.#paused = full;
    return !full;
  }

  /** `span` is the tracing span of the window. */
  async append(batch: AppendBatch, signal: AbortSignal, span?: TraceSpan): Promise<Appended> {
    const appending = span?.child('append', { events: batch.events.length });
    const appended = await this.#persist(batch, signal);
    appending?.end({}, problemOf(appended));
    return appended;
  }

  async #persist(batch: AppendBatch, signal: AbortSignal): Promise<Appended> {
    const { ledger, clock, random, logger, metrics } = this.#options;
    for (let delay = FIRST_DELAY_MS; ; delay = Math.min(delay * 2, MAX_DELAY_MS)) {
      const outcome = await ledger.append(batch);
      if (outcome.kind === 'appended') return outcome;
      if (outcome.cause !== 'retryable' && outcome.cause !== 'full') {
        return { kind: 'ledger', reason: outcome.message };
      }
      logger.error(`[controller] cannot append a window, trying again: ${outcome.message}`);
      if (batch.windowEnd !== undefined) {
        metrics?.lagSeconds.set((clock.now() - batch.windowEnd) / 1000);
      }
      await clock.sleep(delay * (0.5 + random() / 2), signal).catch(() => undefined);
      if (signal.aborted) return { kind: 'aborted' };
    }
  }
}

function problemOf(appended: Appended): string | undefined {
  if (appended.kind === 'appended') return undefined;
  return appended.kind === 'ledger' ? appended.reason : 'stopped before the ledger took it';
}
