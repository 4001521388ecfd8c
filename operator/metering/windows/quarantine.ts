import { Backoff } from '../../model/backoff.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';

/** A scope that is left out of windows because it threw an error or exceeded a limit. */
export interface QuarantinedScope {
  readonly name: string;
  readonly reason: string;
  /** When its first attempt failed, wall clock, milliseconds. */
  readonly since: number;
}

const BACKOFF = { baseMs: 60_000, capMs: 3_600_000 } as const;

interface Entry extends QuarantinedScope {
  readonly backoff: Backoff;
  readonly attempts: number;
  /** When it is tried again, monotonic. */
  readonly retryAt: number;
}

/**
 * Quarantines scopes whose own objects keep a window from being closed, so that other windows do
 * not wait (docs/explanation/architecture.md#what-may-fail-and-what-then). It retries a scope after
 * a minute and then at growing intervals. The first closed window releases the scope. Nothing is
 * stored: a restart retries at once, and what fails again is quarantined again.
 */
export class Quarantine {
  readonly #options;
  readonly #entries = new Map<string, Entry>();

  constructor(options: {
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Logger;
    readonly metrics: Pick<CollectorMetrics, 'quarantined'>;
  }) {
    this.#options = options;
  }

  /** Why a scope is not tried at present; undefined if it may be. */
  reason(name: string): string | undefined {
    const entry = this.#entries.get(name);
    if (entry === undefined || this.#options.clock.monotonic() >= entry.retryAt) return undefined;
    return entry.reason;
  }

  /** How often in a row a scope has failed. */
  attempts(name: string): number {
    return this.#entries.get(name)?.attempts ?? 0;
  }

  add(name: string, reason: string): void {
    const { clock, random, logger, metrics } = this.#options;
    const before = this.#entries.get(name);
    const backoff = before?.backoff ?? new Backoff({ ...BACKOFF, random });
    const retryAt = clock.monotonic() + BACKOFF.baseMs / 2 + backoff.next();
    const attempts = (before?.attempts ?? 0) + 1;
    const since = before?.since ?? clock.now();
    this.#entries.set(name, { name, reason, since, backoff, attempts, retryAt });
    metrics.quarantined.set(this.#entries.size);
    if (before?.reason === reason) return;
    logger.error(`[controller] ${name} is left out of windows for now: ${reason}`);
  }

  /** Ends the quarantine: a window of the scope is closed, or the scope is gone. */
  release(name: string): void {
    const { logger, metrics } = this.#options;
    if (!this.#entries.delete(name)) return;
    metrics.quarantined.set(this.#entries.size);
    logger.info(`[controller] ${name} is in windows again`);
  }

  /** All quarantined scopes, including those that are about to be retried. */
  list(): readonly QuarantinedScope[] {
    return [...this.#entries.values()];
  }
}
