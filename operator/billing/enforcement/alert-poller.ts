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
/** After a query that failed, and until tenants are known. */
const RETRY_MS = 30_000;

/**
 * Queries the current alerts of billing systems, at the start and every five minutes. So a lost
 * alert neither spares nor suspends a tenant (docs/how-to/enforcement.md#alerts-that-never-came).
 */
export class AlertPoller {
  readonly #options;
  /** The last failure of each destination; each is logged once. */
  readonly #failures = new Map<string, string>();

  constructor(options: {
    readonly query: QueryCurrentAlerts;
    /** The billing systems whose alerts are accepted. */
    readonly providers: () => readonly DestinationType[];
    readonly states: Pick<StateStore, 'all'>;
    readonly receive: (alert: Alert, signal: AbortSignal) => Promise<InboxOutcome>;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /** Polls once. Resolves to true when every query succeeded and every alert was applied. */
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

  /** The subjects of a billing system that currently have a state other than `active`. */
  #troubles(provider: DestinationType): readonly string[] {
    const entries = this.#options.states.all().flatMap(troublesOf);
    const own = entries.filter((entry) => entry.provider === provider);
    return [...new Set(own.map(({ subject }) => subject))];
  }

  #fail(destination: string, reason: string): void {
    if (this.#failures.get(destination) === reason) return;
    this.#failures.set(destination, reason);
    const effect = 'only alerts change the state of its customers';
    this.#options.logger.warn(`[enforcement] ${destination}: ${reason}; ${effect}`);
  }
}
