import type { PublicKeysOutcome } from '../../../destinations/destination.ts';
import type { DestinationType } from '../../../model/destination-type.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import type { Logger } from '../../../telemetry/logger.ts';

/** Asks a billing system for the public keys with which it signs. */
export type QueryKeys = (
  provider: DestinationType,
  signal: AbortSignal,
) => Promise<PublicKeysOutcome>;

/** Whoever sends rubbish makes us ask no more often. */
const QUERY_EVERY_MS = 60_000;

export interface PinnedKeysOptions {
  readonly query: QueryKeys;
  /** What is asked: keys that another list of destinations gave count no more. */
  readonly destinations: () => unknown;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The public keys of billing systems: asked for once, and again only when something is not signed by them,
 * which is how a new key shows itself.
 */
export class PinnedKeys {
  readonly #options: PinnedKeysOptions;
  #destinations: unknown;
  readonly #keys = new Map<DestinationType, readonly string[]>();
  readonly #requested = new Map<
    DestinationType,
    { readonly at: number; readonly answer: Promise<PublicKeysOutcome> }
  >();

  constructor(options: PinnedKeysOptions) {
    this.#options = options;
  }

  /** The keys as they were asked for last; asks when they never were. */
  async of(provider: DestinationType, signal: AbortSignal): Promise<PublicKeysOutcome> {
    const destinations = this.#options.destinations();
    if (destinations !== this.#destinations) {
      this.#keys.clear();
      this.#requested.clear();
    }
    this.#destinations = destinations;
    const keys = this.#keys.get(provider);
    return keys === undefined ? this.renewed(provider, signal) : { kind: 'keys', keys };
  }

  /** The keys as they are now, no older than a minute. */
  async renewed(provider: DestinationType, signal: AbortSignal): Promise<PublicKeysOutcome> {
    const { query, clock, logger } = this.#options;
    const now = clock.monotonic();
    const last = this.#requested.get(provider);
    const requested =
      last !== undefined && now - last.at < QUERY_EVERY_MS
        ? last
        : { at: now, answer: query(provider, signal) };
    this.#requested.set(provider, requested);
    const answer = await requested.answer;
    if (answer.kind === 'failed') {
      // It is no answer to the next message.
      if (this.#requested.get(provider) === requested) this.#requested.delete(provider);
      return answer;
    }
    const before = this.#keys.get(provider);
    if (before !== undefined && answer.keys.join() !== before.join()) {
      logger.warn(`[enforcement] ${provider} signs its messages with another key from now on`);
    }
    this.#keys.set(provider, answer.keys);
    return answer;
  }
}
