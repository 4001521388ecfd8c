import type { PublicKeysOutcome } from '../../../destinations/destination.ts';
import type { DestinationType } from '../../../model/destination-type.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import type { Logger } from '../../../telemetry/logger.ts';

/** Fetches the public keys that a billing system signs with. */
export type QueryKeys = (
  provider: DestinationType,
  signal: AbortSignal,
) => Promise<PublicKeysOutcome>;

/** A sender of badly signed messages causes no more than this. */
const QUERY_EVERY_MS = 60_000;

/**
 * The public keys of billing systems. Fetched once, and again when a message is not signed by them,
 * because that is how a new key appears.
 */
export class PinnedKeys {
  readonly #options;
  #destinations: unknown;
  readonly #keys = new Map<DestinationType, readonly string[]>();
  readonly #requested = new Map<
    DestinationType,
    { readonly at: number; readonly answer: Promise<PublicKeysOutcome> }
  >();

  constructor(options: {
    readonly query: QueryKeys;
    /** The current list of destinations. Another list makes the fetched keys invalid. */
    readonly destinations: () => unknown;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /** The last fetched keys; fetches them the first time. */
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

  /** The current keys, at most a minute old. */
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
      // The next message tries again.
      if (this.#requested.get(provider) === requested) this.#requested.delete(provider);
      return answer;
    }
    const before = this.#keys.get(provider);
    if (before !== undefined && answer.keys.join() !== before.join()) {
      logger.warn(`[enforcement] ${provider} signs its messages with a new key`);
    }
    this.#keys.set(provider, answer.keys);
    return answer;
  }
}
