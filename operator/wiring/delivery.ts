import type { DestinationSettings } from '../config/settings.ts';
import type { DestinationCursors } from '../controllers/billing-destination.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { createDelivery } from '../delivery/delivery-engine.ts';
import type { DestinationStatus } from '../delivery/destination-status.ts';
import { createDriftWatch, type DriftReport } from '../delivery/operations/drift-watch.ts';
import { createInvoiceWatch } from '../delivery/operations/invoice-watch.ts';
import { type PriceReport, PriceWatch } from '../delivery/operations/price-watch.ts';
import { type Rate, RateWatch } from '../delivery/operations/rate-watch.ts';
import { wasServed } from '../delivery/records/served-tenants.ts';
import type { Discovery } from '../discovery/discovery.ts';
import { createEnforcement, type Enforcement } from '../enforcement/enforcement.ts';
import { Revocations } from '../http/portal/revocations.ts';
import type { HeldUsage } from '../ingest/held-usage.ts';
import { createHeldUsage } from '../ingest/ledger-held-usage.ts';
import { EventRecorder } from '../kubernetes/events.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import { whenConfigured } from './custom-resources.ts';
import { leaderDestinations } from './leader-destinations.ts';
import type { Metering } from './metering.ts';
import { openGaps } from './open-gaps.ts';
import { aborted, type Part } from './parts.ts';

/** What goes to billing systems, and what comes back from them. */
export interface Billing {
  readonly delivery: Delivery;
  /** What is known of a destination beside delivery itself: only what is known, or wrong. */
  readonly noticedOf: (status: DestinationStatus) => {
    readonly drift?: DriftReport;
    readonly prices?: PriceReport;
    readonly rate?: Rate;
    readonly tooSlow?: Rate;
  };
  readonly enforcement: Enforcement;
  readonly held: HeldUsage;
  readonly cursors: DestinationCursors;
  readonly parts: readonly Part[];
}

/** Delivery of events, the comparisons with what arrived, and the enforcement of alerts. */
export async function buildDelivery(
  context: BuildContext,
  { discovery, watches, observation }: ClusterView,
  metering: Metering,
): Promise<Billing> {
  const { settings, connection, ledger, clock, random, logger, registry } = context;
  const { outbound, customResources, queueMetrics, instance, tracer, mayAct } = context;
  const common = { clock, random, logger, ledger, registry };
  const maxBackfillMs = () => settings.current().metering.maxBackfillMs;
  const delivery = createDelivery({
    ...common,
    catalog: metering.catalog,
    createDestination: leaderDestinations({ clock, logger, outbound, tracer }, mayAct),
    tenants: {
      find: (id) => discovery.findTenant(id),
      subscribe: (listener) => discovery.subscribe(() => listener()),
      openGaps: () =>
        openGaps(metering.gaps(), observation.tenantClusters, clock.now() - maxBackfillMs()),
    },
    existing: () => customResources.destinations(),
    othersFeed: context.environment.role === 'meter',
    maxBackfillMs,
  });
  const drift = createDriftWatch({ ...common, delivery });
  const invoices = createInvoiceWatch({ ...common, delivery });
  const rate = new RateWatch(ledger, clock);
  const prices = new PriceWatch({
    ...common,
    delivery,
    prices: () => {
      const { pricing, billing } = settings.current();
      return { books: pricing.books, defaultPlan: billing.defaultPlanCode };
    },
  });
  const enforcement = createEnforcement({
    ...common,
    settings,
    connection,
    discovery,
    sources: watches.discovery,
    queueMetrics,
    ask: (provider, customer, signal) => delivery.tenantsOf(provider, customer, signal),
    askKeys: (provider, signal) => delivery.publicKeysOf(provider, signal),
    report: (...reported) => delivery.report(...reported),
    askStanding: (asked, signal) => delivery.standing(asked, signal),
    overridesKnown: (signal) => customResources.ready(signal),
    events: new EventRecorder({ connection, clock, logger, instance }),
  });
  const { held, part: heldPart } = buildHeldUsage(context, discovery, metering);
  // Nothing may be pushed, and no alert come, before.
  await enforcement.load();
  await held.load();
  return {
    delivery,
    held,
    noticedOf: (status) =>
      omitUndefined({
        drift: drift.reportOf(status.name),
        prices: prices.reportOf(status.name),
        rate: rate.rateOf(status),
        tooSlow: rate.tooSlow(status),
      }),
    enforcement,
    cursors: createDestinationCursors(context, delivery),
    parts: [
      // A destination that is not known yet would count as gone.
      whenConfigured(customResources, deliveryPart(context, delivery, discovery)),
      {
        name: 'destination watches',
        run: async (signal) => {
          const watches = [drift, invoices, rate];
          await Promise.all(watches.map((watch) => watch.run(signal)));
        },
      },
      // A book that is not known yet would count as none.
      whenConfigured(customResources, { name: 'prices', run: (signal) => prices.run(signal) }),
      { name: 'enforcement', run: (signal) => enforcement.run(signal) },
      heldPart,
    ],
  };
}

/**
 * The way of pushed usage into the ledger. Until the custom resources have been looked at, whatever they
 * say, usage of tenants that nobody knows is held: it is released where they want it to be.
 */
function buildHeldUsage(
  { settings, ledger, clock, customResources }: BuildContext,
  discovery: Discovery,
  { catalog }: Pick<Metering, 'catalog'>,
): { readonly held: HeldUsage; readonly part: Part } {
  let configured = false;
  const isDiscovered = (id: string): boolean => discovery.findTenant(id) !== undefined;
  const held = createHeldUsage({
    ledger,
    clock,
    unknownTenants: () => (configured ? settings.current().ingest.unknownTenants : 'hold'),
    isDiscovered,
    wasServed: (tenant) => wasServed(ledger, tenant),
    isMeasuredHere: ({ metric, tenant }) =>
      catalog().find(metric)?.source !== 'custom' && isDiscovered(tenant),
  });
  const part = whenConfigured(customResources, {
    name: 'held usage',
    run: async (signal) => {
      configured = true;
      const look = (): void => void held.releaseKnown();
      const endings = [discovery.subscribe(look), settings.subscribe(look)];
      look();
      await aborted(signal);
      for (const end of endings) end();
    },
  });
  return { held, part };
}

/** Delivery by the settings in force, which must know every destination; offboards whom discovery has given up. */
function deliveryPart(
  { settings, ledger, clock, logger, environment }: BuildContext,
  delivery: Delivery,
  discovery: Discovery,
): Part {
  const isMeter = environment.role === 'meter';
  const apply = (destinations: readonly DestinationSettings[]): Promise<void> => {
    if (destinations.length === 0) {
      const what = isMeter ? 'a hub feeds what it has' : 'events stay in the ledger';
      logger.info(`[bootstrap] no destination is configured: ${what}`);
    }
    return delivery.apply(destinations);
  };
  const offboard = createFarewells(delivery, discovery, new Revocations(ledger, clock), logger);
  return {
    name: 'delivery',
    run: async (signal) => {
      const endings = [
        settings.subscribe((next, previous) => {
          const { destinations } = next.billing;
          if (destinations !== previous.billing.destinations) void apply(destinations);
        }),
        // A meter bids farewell together with a hub.
        ...(isMeter ? [] : [discovery.subscribe(() => void offboard())]),
      ];
      await apply(settings.current().billing.destinations);
      await delivery.run(signal);
      for (const end of endings) end();
    },
  };
}

/**
 * Returns a function that ends the portal tokens of departed customers and hands the customers over to delivery,
 * one after another. A call during another one does nothing: the next pass of discovery has who is left.
 */
export function createFarewells(
  delivery: Pick<Delivery, 'offboard'>,
  discovery: Pick<Discovery, 'offboarded' | 'acceptOffboarding'>,
  tokens: Pick<Revocations, 'revokeAll'>,
  logger: Pick<Logger, 'warn'>,
): () => Promise<void> {
  let isUnderWay = false;
  return async () => {
    if (isUnderWay) return;
    isUnderWay = true;
    try {
      for (const { tenant } of discovery.offboarded()) {
        const revoked = await tokens.revokeAll(tenant.id);
        const outcome = revoked.kind === 'failed' ? revoked : await delivery.offboard(tenant);
        if (outcome.kind === 'failed') logger.warn(`[controller] ${outcome.message}`);
        else discovery.acceptOffboarding(tenant.id);
      }
    } finally {
      isUnderWay = false;
    }
  };
}

/** Retires the cursor of a deleted destination after its feeder has ended, and reserves those of others. */
export function createDestinationCursors(
  { settings, ledger, clock }: Pick<BuildContext, 'settings' | 'ledger' | 'clock'>,
  delivery: Pick<Delivery, 'apply' | 'reserve'>,
): DestinationCursors {
  return {
    reserve: () => delivery.reserve(),
    retire: async (destination) => {
      await delivery.apply(settings.current().billing.destinations);
      const stays = settings
        .current()
        .billing.destinations.some(({ name }) => name === destination);
      const cursor = ledger.cursors().find((candidate) => candidate.destination === destination);
      // The environment may name a destination of the same name, which goes on at this cursor.
      if (stays || cursor === undefined || cursor.retiredAt !== undefined) {
        return { kind: 'retired' };
      }
      const outcome = await ledger.retireCursor(destination, clock.now());
      return outcome.kind === 'written'
        ? { kind: 'retired' }
        : { kind: 'failed', reason: outcome.message };
    },
  };
}
