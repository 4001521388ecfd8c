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

/** Where a stream comes from: an operator has its own, a hub finds some in its databases. */
export interface StreamSource
  extends Pick<DeliveryOptions, 'catalog' | 'tenants' | 'othersFeed' | 'mayAppend'> {
  readonly name: StreamName;
  readonly ledger: Ledger;
  /** Of the stream's own metrics. */
  readonly registry: Registry;
  /** Its sums of usage: an operator keeps them, a hub reads those of the stream's operator. Undefined while there are none. */
  readonly totals: () => UsageTotals | undefined;
  /** Whether this process may act outside for the stream at this moment. */
  readonly mayAct: () => boolean;
  /** As the stream wants destinations, out of those that this process makes. */
  readonly createDestination?: (create: CreateDestination) => CreateDestination;
  readonly existing: NonNullable<DeliveryOptions['existing']>;
  /** Those to feed it to now. */
  readonly wanted: () => readonly DestinationSettings[];
  /** What it means, for the log, that there is none. */
  readonly noneWanted?: string;
  /** Calls after a change of what is wanted, or of who has left. Ends with the returned function. */
  readonly subscribe: (listener: () => void) => () => void;
  /** Takes over what another process has fed; false where that is not possible now. */
  readonly adopt?: (wanted: readonly DestinationSettings[]) => Promise<boolean>;
  /** Whether another process feeds a destination: its cursor is left alone. */
  readonly isOthers?: (destination: string) => boolean;
  /** Tenants that have left and are to be offboarded here. */
  readonly departures: () => readonly Departure[];
  /** Hands one of them over to destinations, durably. */
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

  /** Feeds the stream to the destinations that are wanted, which must all be known, until the signal is aborted. */
  async feed(signal: AbortSignal): Promise<void> {
    const { origin, delivery } = this;
    const { logger } = this.#context;
    let applied: readonly DestinationSettings[] | undefined;
    /** What could not be taken over now is so with the next change. */
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
    // Nobody is offboarded before every feeder is there to learn of it.
    await reconcile();
    await running;
    leave();
  }
}

function isSame<T>(some: readonly T[], others: readonly T[]): boolean {
  return some.length === others.length && some.every((one, index) => one === others[index]);
}

/** A stream as far as destinations are fed out of it. */
interface FedStream {
  readonly delivery: Pick<Delivery, 'apply' | 'reserve'>;
  readonly origin: Pick<StreamSource, 'name' | 'ledger' | 'wanted' | 'isOthers'>;
}

/** The cursors of destinations in all streams of this process. `named` begins what is said of one stream. */
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

/** Retires a cursor after the feeder has ended: the next commit would revive it. */
async function retire(
  destination: string,
  { delivery, origin }: FedStream,
  clock: Clock,
): Promise<WriteOutcome> {
  if (origin.isOthers?.(destination) === true) return { kind: 'written' };
  const wanted = origin.wanted();
  await delivery.apply(wanted);
  const cursor = origin.ledger.cursors().find((one) => one.destination === destination);
  // The environment may name a destination of the same name, which goes on at this cursor.
  const stays = wanted.some(({ name }) => name === destination);
  if (stays || cursor === undefined || cursor.retiredAt !== undefined) return { kind: 'written' };
  return origin.ledger.retireCursor(destination, clock.now());
}

/**
 * Returns a function that hands over the tenants that have left, one after another. A call during another one does nothing:
 * with the next change those that are left are handed over.
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
 * Destinations of a process that leads: while it may not act they begin no call with an effect, and send no request of a call
 * that has begun (docs/explanation/delivery.md#one-process-delivers).
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
