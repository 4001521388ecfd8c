import type { MetricFilter } from '../../settings/settings.ts';
import type { Destination, StepOutcome } from '../../destinations/destination.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { errorText } from '../../model/error-text.ts';
import type { BlockReason } from '../delivery-result.ts';
import { wantedMetrics } from './event-filter.ts';

/**
 * Prepares a destination before its first event and after each change of the catalogue. Retries
 * without end and blocks this destination only. Some billing systems never bill an event that
 * arrives before its metric exists.
 */
export class Bootstrap {
  readonly #destination: Destination;
  readonly #filter: MetricFilter | undefined;
  readonly #catalog: () => readonly MetricDefinition[];
  /** The metrics for which it is prepared, as JSON. */
  #readyFor: string | undefined;
  #failures = 0;

  constructor(
    destination: Destination,
    filter: MetricFilter | undefined,
    catalog: () => readonly MetricDefinition[],
  ) {
    this.#destination = destination;
    this.#filter = filter;
    this.#catalog = catalog;
  }

  isReady(): boolean {
    return this.#readyFor !== undefined;
  }

  /** Failures in a row. */
  failures(): number {
    return this.#failures;
  }

  /** Prepares the destination if needed. Returns why it is not prepared; undefined if it is. */
  async ensure(signal: AbortSignal): Promise<BlockReason | undefined> {
    const metrics = this.#wanted();
    const fingerprint = JSON.stringify(metrics);
    if (fingerprint === this.#readyFor) return undefined;
    const outcome = await this.#attempt(metrics, signal);
    if (outcome.kind === 'done') {
      this.#readyFor = fingerprint;
      this.#failures = 0;
      return undefined;
    }
    this.#failures += 1;
    // The cause of a refusal may be fixed at the destination, so it is retried, rarely.
    return outcome.kind === 'rejected' ? { kind: 'blocked', reason: outcome.reason } : outcome;
  }

  /** Prepares the destination again, to see whether it answers. */
  probe(signal: AbortSignal): Promise<StepOutcome> {
    return this.#attempt(this.#wanted(), signal);
  }

  #wanted(): readonly MetricDefinition[] {
    return wantedMetrics(this.#catalog(), this.#destination, this.#filter);
  }

  async #attempt(metrics: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    try {
      return await this.#destination.bootstrap(metrics, signal);
    } catch (error) {
      return { kind: 'retry', reason: `bootstrap failed: ${errorText(error)}` };
    }
  }
}
