import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { linkAbort, pause } from '../telemetry/abort.ts';
import type { Connection, QueryValue } from './connection.ts';
import { readPages } from './list-and-watch.ts';
import type { LiveView } from './live-view.ts';
import type { ReflectorMetrics } from './metrics.ts';
import { Relist } from './relist.ts';
import type { ObjectIdentity } from './resource.ts';
import type { Projected } from './source.ts';

/**
 * Finds events that a watch lost: compares the view at intervals with a list of the exact version
 * that the watch had reached. The watch goes on meanwhile and the objects it changes are skipped,
 * so every difference is a lost event. Differences are corrected in the view and counted.
 */
export class PeriodicComparison<T extends Projected> {
  readonly #options;
  /** Wall clock at which the last complete list or comparison was requested. */
  #lastCompleteListAt: number;
  #comparison: Relist<T> | undefined;
  #cancel = (): void => undefined;

  constructor(options: {
    readonly connection: Pick<Connection, 'request'>;
    readonly path: string;
    /** As {@link ReflectorOptions.pageSize}. */
    readonly pageSize: number | undefined;
    readonly selectors: Readonly<Record<string, QueryValue>>;
    readonly view: LiveView<T>;
    readonly clock: Clock;
    /** Uniform in [0, 1). */
    readonly random: () => number;
    readonly logger: Logger;
    readonly recorder: Pick<ReturnType<ReflectorMetrics>, 'corrections' | 'size'>;
    /** For log lines. */
    readonly resource: string;
    /** Milliseconds between comparisons, ± 20 %. */
    readonly intervalMs: number;
    /** Wall clock at which the view was last known to be complete; 0 when unknown. */
    readonly knownAt: number;
    /** The version that the watch has reached; undefined while the view is incomplete. */
    readonly version: () => string | undefined;
    /** Called when the server has discarded that version. */
    readonly onExpired: () => void;
  }) {
    this.#options = options;
    this.#lastCompleteListAt = options.knownAt;
  }

  /** Compares until the signal is aborted. Does not block the watch. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, intervalMs, version } = this.#options;
    const interval = (): number => intervalMs * (0.8 + 0.4 * random());
    while (await pause(clock, interval(), signal)) {
      const reached = version();
      if (reached !== undefined) await this.#compare(signal, reached);
    }
  }

  /** Cancels a running comparison, because a new list supersedes its version. */
  cancel(): void {
    this.#cancel();
  }

  /** A complete list, requested at `at`, confirmed the view. */
  confirm(at: number): void {
    this.#lastCompleteListAt = at;
  }

  /** The watch is about to change this object. */
  skip(identity: ObjectIdentity): void {
    this.#comparison?.skip(identity);
  }

  async #compare(signal: AbortSignal, version: string): Promise<void> {
    const { connection, path, pageSize, selectors, view, clock } = this.#options;
    const link = linkAbort(signal);
    this.#cancel = link.abort;
    const requestedAt = clock.now();
    const comparison = new Relist(view, () => {
      return { at: clock.now(), knownUntil: this.#lastCompleteListAt, late: true };
    });
    this.#comparison = comparison;
    const outcome = await readPages({
      connection,
      path,
      pageSize,
      query: { ...selectors, resourceVersion: version, resourceVersionMatch: 'Exact' },
      signal: link.signal,
      onItem: (object) => comparison.take(object),
    });
    link.release();
    if (outcome.kind === 'complete') {
      comparison.finish();
      this.#lastCompleteListAt = requestedAt;
    }
    this.#report(comparison.differences);
    this.#comparison = undefined;
    if (outcome.kind === 'expired') this.#options.onExpired();
  }

  #report(corrections: number): void {
    const { recorder, view, logger, resource } = this.#options;
    recorder.corrections(corrections);
    recorder.size(view.size);
    if (corrections === 0) return;
    logger.warn(
      `[controller] ${resource}: corrected ${corrections} objects whose events were lost`,
    );
  }
}
