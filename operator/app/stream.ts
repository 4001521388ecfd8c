import type { Registry } from 'prom-client';
import type { DestinationSettings } from '../settings/settings.ts';
import type { DestinationCursors } from '../controllers/billing-destination.ts';
import { Delivery } from '../delivery/delivery.ts';
import type { DeliveryOptions } from '../delivery/delivery-options.ts';
import { fencedDestinations } from '../delivery/fenced-destinations.ts';
import { type CreateDestination, createDestinationRegistry } from '../destinations/registry.ts';
import type { Departure } from './fleet/stream-watch.ts';
import type { StreamName } from '../ledger/fleet.ts';
import type { Ledger, WriteOutcome } from '../ledger/ledger.ts';
import { errorText } from '../model/error-text.ts';
import { fencedOutbound } from '../outbound/fenced-outbound.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageTotals } from '../billing/usage/usage-totals.ts';
import type { StreamContext } from './build-context.ts';
import { createDestinationMetrics } from './status-metrics.ts';
import { tracedDestinations } from './otlp.ts';

/** Origin of a stream: an operator has its own, a hub finds streams in its databases. */
export interface StreamSource
  extends Pick<DeliveryOptions, 'catalog' | 'tenants' | 'othersFeed' | 'mayAppend'> {
  readonly name: StreamName;
  readonly ledger: Ledger;
  /** Registry of the stream's own metrics. */
  readonly registry: Registry;
  /**
   * Sums of usage; undefined until they are open. An operator maintains them, a hub reads those of
   * the stream's operator.
   */
  readonly totals: () => UsageTotals | undefined;
  /** Returns whether this process may change anything outside for the stream at this moment. */
  readonly mayAct: () => boolean;
  /** Adapts the destinations of this process to the stream. */
  readonly createDestination?: (create: CreateDestination) => CreateDestination;
  readonly existing: NonNullable<DeliveryOptions['existing']>;
  /** Destinations to feed the stream to now. */
  readonly wanted: () => readonly DestinationSettings[];
  /** Consequence of having no destination, for the log. */
  readonly noneWanted?: string;
  /**
   * Calls the listener after a change of the wanted destinations or of the departures. The returned
   * function ends the subscription.
   */
  readonly subscribe: (listener: () => void) => () => void;
  /**
   * Takes over the cursors of destinations that another process fed. Returns false if that is
   * impossible now.
   */
  readonly adopt?: (wanted: readonly DestinationSettings[]) => Promise<boolean>;
  /** Returns whether another process feeds a destination, so that its cursor must stay. */
  readonly isOthers?: (destination: string) => boolean;
  /** Departed tenants to offboard here. */
  readonly departures: () => readonly Departure[];
  /** Durably hands a departed tenant over to the destinations. */
  readonly depart: (
    departure: Departure,
    delivery: Pick<Delivery, 'offboard'>,
  ) => Promise<WriteOutcome>;
}

/** One stream in this process, fed to destinations. An operator has one, a hub has many. */
export class Stream {
  readonly origin: StreamSource;
  readonly delivery: Delivery;
  readonly #context: StreamContext;

  constructor(context: StreamContext, origin: StreamSource) {
    const { clock, random, logger, settings } = context;
    this.#context = context;
    this.origin = origin;
    this.delivery = new Delivery({
      ...origin,
      clock,
      random,
      logger,
      createDestination: destinationsOf(context, origin),
      maxBackfillMs: () => settings.current().metering.maxBackfillMs,
    });
    createDestinationMetrics(origin.registry, () => this.delivery.statuses());
  }

  get totals(): StreamSource['totals'] {
    return this.origin.totals;
  }

  /** Feeds the stream to the wanted destinations, which must all be known, until the abort. */
  async feed(signal: AbortSignal): Promise<void> {
    const { origin, delivery } = this;
    const { logger } = this.#context;
    let applied: readonly DestinationSettings[] | undefined;
    /**
     * Applies the wanted destinations. Returns false if a takeover is impossible now; the next
     * change retries it.
     */
    const apply = async (): Promise<boolean> => {
      const wanted = origin.wanted();
      if ((await origin.adopt?.(wanted)) === false) return false;
      if (applied !== undefined && isSame(applied, wanted)) return true;
      applied = wanted;
      if (wanted.length === 0 && origin.noneWanted !== undefined) {
        logger.info(`[bootstrap] no destination is configured: ${origin.noneWanted}`);
      }
      await delivery.apply(wanted);
      return true;
    };
    const offboard = offboarding(origin, delivery, logger);
    const reconcile = async (): Promise<void> => {
      try {
        if (!(await apply())) return;
        await delivery.reserve();
        await offboard();
      } catch (error) {
        logger.warn(`[delivery] ${errorText(error)}`);
      }
    };
    await apply();
    const leave = origin.subscribe(() => void reconcile());
    const running = delivery.run(signal);
    // Offboard only after every feeder exists to receive it.
    await reconcile();
    await running;
    leave();
  }
}

function isSame<T>(some: readonly T[], others: readonly T[]): boolean {
  return some.length === others.length && some.every((one, index) => one === others[index]);
}

/** A stream, as far as destinations are fed from it. */
interface FedStream {
  readonly delivery: Pick<Delivery, 'apply' | 'reserve'>;
  readonly origin: Pick<StreamSource, 'name' | 'ledger' | 'wanted' | 'isOthers'>;
}

/**
 * Cursors of destinations in all streams of this process. `named` returns the prefix for errors
 * about one stream.
 */
export function destinationCursors(
  streams: () => readonly FedStream[],
  clock: Clock,
  named: (stream: StreamName) => string = () => '',
): DestinationCursors {
  return {
    reserve: async () => {
      const outcomes = await Promise.all(streams().map(({ delivery }) => delivery.reserve()));
      return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
    },
    retire: async (destination) => {
      for (const stream of streams()) {
        const outcome = await retire(destination, stream, clock);
        if (outcome.kind === 'written') continue;
        return { kind: 'failed', reason: named(stream.origin.name) + outcome.message };
      }
      return { kind: 'retired' };
    },
  };
}

/** Retires a cursor after its feeder has ended: a later commit would revive it. */
async function retire(
  destination: string,
  { delivery, origin }: FedStream,
  clock: Clock,
): Promise<WriteOutcome> {
  if (origin.isOthers?.(destination) === true) return { kind: 'written' };
  const wanted = origin.wanted();
  await delivery.apply(wanted);
  const cursor = origin.ledger.cursors().find((one) => one.destination === destination);
  // A destination of the environment may have the same name and continue at this cursor.
  const stays = wanted.some(({ name }) => name === destination);
  if (stays || cursor === undefined || cursor.retiredAt !== undefined) return { kind: 'written' };
  return origin.ledger.retireCursor(destination, clock.now());
}

/**
 * Returns a function that hands over the departed tenants one after another. A call during another
 * call does nothing; the next change hands over those that are left.
 */
export function offboarding(
  { departures, depart }: Pick<StreamSource, 'departures' | 'depart'>,
  delivery: Pick<Delivery, 'offboard'>,
  logger: Pick<Logger, 'warn'>,
): () => Promise<void> {
  let isUnderWay = false;
  return async () => {
    if (isUnderWay) return;
    isUnderWay = true;
    try {
      for (const departure of departures()) {
        const outcome = await depart(departure, delivery);
        if (outcome.kind === 'failed') logger.warn(`[delivery] ${outcome.message}`);
      }
    } finally {
      isUnderWay = false;
    }
  };
}

/**
 * Creates destinations of a leader. While it may not act, they start no call with side effects, and
 * send no request of a call that has started (docs/explanation/delivery.md#one-process-delivers).
 */
function destinationsOf(
  { clock, logger, outbound, tracer }: StreamContext,
  { mayAct, createDestination = (create) => create }: StreamSource,
): CreateDestination {
  const fenced = fencedOutbound(outbound, mayAct);
  const registry = createDestinationRegistry({ clock, logger, outbound: fenced });
  const create = fencedDestinations(registry, mayAct);
  return createDestination(tracer === undefined ? create : tracedDestinations(create, tracer));
}
