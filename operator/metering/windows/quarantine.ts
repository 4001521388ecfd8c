import { createBackoff, type Backoff } from '../../model/backoff.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';

/** A scope that is left out of windows, since something of it threw or took too much. */
export interface QuarantinedScope {
  readonly name: string;
  readonly reason: string;
  /** Wall clock, milliseconds: when its first attempt failed. */
  readonly since: number;
}

export interface QuarantineOptions {
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Pick<CollectorMetrics, 'quarantined'>;
}

const BACKOFF = { baseMs: 60_000, capMs: 3_600_000 } as const;

interface Held extends QuarantinedScope {
  readonly backoff: Backoff;
  readonly attempts: number;
  /** Monotonic: when it is tried again. */
  readonly retryAt: number;
}

/**
 * Holds back scopes whose own objects keep a window from being closed, so that nobody else's waits
 * (docs/explanation/architecture.md#what-may-fail-and-what-then). Each is tried again after a minute and then more
 * and more seldom, and free with the first window that is closed. A restart tries at once: nothing of
 * it is kept, since what fails again is held again.
 */
export class Quarantine {
  readonly #options: QuarantineOptions;
  readonly #held = new Map<string, Held>();

  constructor(options: QuarantineOptions) {
    this.#options = options;
  }

  /** Why no window of a scope is tried at present; undefined when one may be. */
  reason(name: string): string | undefined {
    const held = this.#held.get(name);
    if (held === undefined || this.#options.clock.monotonic() >= held.retryAt) return undefined;
    return held.reason;
  }

  /** How often in a row a scope has failed. */
  attempts(name: string): number {
    return this.#held.get(name)?.attempts ?? 0;
  }

  hold(name: string, reason: string): void {
    const { clock, random, logger, metrics } = this.#options;
    const before = this.#held.get(name);
    const backoff = before?.backoff ?? createBackoff({ ...BACKOFF, random });
    const retryAt = clock.monotonic() + BACKOFF.baseMs / 2 + backoff.next();
    const attempts = (before?.attempts ?? 0) + 1;
    const since = before?.since ?? clock.now();
    this.#held.set(name, { name, reason, since, backoff, attempts, retryAt });
    metrics.quarantined.set(this.#held.size);
    if (before?.reason === reason) return;
    logger.error(`[controller] ${name} is left out of windows for now: ${reason}`);
  }

  /** A window of it is closed, or it is gone. */
  release(name: string): void {
    const { logger, metrics } = this.#options;
    if (!this.#held.delete(name)) return;
    metrics.quarantined.set(this.#held.size);
    logger.info(`[controller] ${name} is in windows again`);
  }

  /** All that are held, those that are about to be tried included. */
  list(): readonly QuarantinedScope[] {
    return [...this.#held.values()];
  }
}
