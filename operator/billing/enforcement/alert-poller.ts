import type { Alert } from '../../destinations/alerts.ts';
import type { QueryCurrentAlerts } from '../../destinations/destination.ts';
import { errorText } from '../../model/error-text.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { InboxOutcome } from './inbox.ts';
import type { StateStore } from './states/state-store.ts';
import { troublesOf } from './states/tenant-record.ts';

const POLL_EVERY_MS = 300_000;
/** While nobody could be asked, or tenants are not known yet. */
const RETRY_MS = 30_000;

export interface StatusWatchOptions {
  readonly query: QueryCurrentAlerts;
  /** Billing systems whose alerts are taken. */
  readonly providers: () => readonly DestinationType[];
  readonly states: Pick<StateStore, 'all'>;
  readonly receive: (alert: Alert, signal: AbortSignal) => Promise<InboxOutcome>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Asks billing systems how their customers stand, at the start and every few minutes, so that an alert that
 * never came neither spares nor suspends anybody (docs/how-to/enforcement.md#alerts-that-never-came).
 */
export class StatusWatch {
  readonly #options: StatusWatchOptions;
  /** What each destination answered last in place of an answer; told once. */
  readonly #failures = new Map<string, string>();

  constructor(options: StatusWatchOptions) {
    this.#options = options;
  }

  /** Resolves with whether everybody could be asked, and took in what was said. */
  async poll(signal: AbortSignal): Promise<boolean> {
    const { query, providers } = this.#options;
    const requested = new Map(providers().map((provider) => [provider, this.#troubles(provider)]));
    if (requested.size === 0) return true;
    let isComplete = true;
    for (const { destination, outcome } of await query(requested, signal)) {
      if (outcome.kind === 'failed') {
        this.#fail(destination, outcome.reason);
        continue;
      }
      this.#failures.delete(destination);
      for (const alert of outcome.alerts) {
        isComplete &&= (await this.#options.receive(alert, signal)).kind !== 'unavailable';
      }
    }
    return isComplete;
  }

  /** Looks until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      let wait = POLL_EVERY_MS;
      try {
        if (!(await this.poll(signal))) wait = RETRY_MS;
      } catch (error) {
        if (!signal.aborted) logger.warn(`[enforcement] ${errorText(error)}`);
      }
      await clock.sleep(wait, signal).catch(() => undefined);
    }
  }

  /** Subjects of which an alert said that they are in trouble. */
  #troubles(provider: DestinationType): readonly string[] {
    const entries = this.#options.states.all().flatMap(troublesOf);
    const own = entries.filter((entry) => entry.provider === provider);
    return [...new Set(own.map(({ subject }) => subject))];
  }

  #fail(destination: string, reason: string): void {
    if (this.#failures.get(destination) === reason) return;
    this.#failures.set(destination, reason);
    const effect = 'how customers stand is known from alerts only';
    this.#options.logger.warn(`[enforcement] ${destination}: ${reason}; ${effect}`);
  }
}
