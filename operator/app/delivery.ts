import type { DestinationStatus } from '../delivery/destination-status.ts';
import { DriftWatch } from '../delivery/operations/drift-watch.ts';
import { InvoiceWatch } from '../delivery/operations/invoice-watch.ts';
import { PriceWatch } from '../delivery/operations/price-watch.ts';
import { RateWatch } from '../delivery/operations/rate-watch.ts';
import { wasServed } from '../delivery/records/served-tenants.ts';
import type { Discovery } from '../discovery/discovery.ts';
import { Enforcement } from '../billing/enforcement/enforcement.ts';
import { Revocations } from '../http/portal/revocations.ts';
import { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import { EventRecorder } from '../kubernetes/events.ts';
import { Summing } from '../billing/usage/summing.ts';
import type { UsageTotals } from '../billing/usage/usage-totals.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import { whenConfigured } from './custom-resources.ts';
import type { Metering } from './metering.ts';
import { openGaps } from './open-gaps.ts';
import { aborted, type Component } from './components.ts';
import { Stream, type StreamSource } from './stream.ts';
import type { Noticed } from '../delivery/noticed.ts';
import { isMeasured } from '../model/catalog.ts';

/** Delivery to the billing systems, and the enforcement of their alerts. */
export interface Billing {
  readonly stream: Stream;
  /** Maintains the sums of the stream. Stop it after the components that show the sums. */
  readonly sums: Component;
  /** See `SumsStore.closeMonth`. */
  readonly closeMonth: Summing['closeMonth'];
  readonly noticedOf: (status: DestinationStatus) => Noticed;
  readonly enforcement: Enforcement;
  readonly held: HeldUsage;
  readonly components: readonly Component[];
}

/** Builds delivery, the comparisons with billing systems, and the enforcement of alerts. */
export async function buildDelivery(
  context: BuildContext,
  cluster: ClusterView,
  metering: Metering,
): Promise<Billing> {
  const { settings, connection, ledger, clock, random, logger, registry } = context;
  const { customResources, queueMetrics, instance } = context;
  const { discovery, watches } = cluster;
  const common = { clock, random, logger, ledger, registry };
  const summing = new Summing(context);
  const totals = (): UsageTotals | undefined => summing.totals;
  const stream = new Stream(context, { ...ownStream(context, cluster, metering), totals });
  const { delivery } = stream;
  const drift = new DriftWatch({ ...common, delivery });
  const invoices = new InvoiceWatch({ ...common, delivery });
  const rate = new RateWatch(ledger, clock);
  const prices = new PriceWatch({
    ...common,
    delivery,
    subscribe: (listener) => settings.subscribe(listener),
    prices: () => {
      const { pricing, billing } = settings.current();
      return { books: pricing.books, defaultPlan: billing.defaultPlanCode };
    },
  });
  const enforcement = new Enforcement({
    ...common,
    settings,
    connection,
    discovery,
    sources: watches.discovery,
    queueMetrics,
    queryCustomer: (provider, customer, signal) => delivery.tenantsOf(provider, customer, signal),
    queryKeys: (provider, signal) => delivery.publicKeysOf(provider, signal),
    report: (...reported) => delivery.report(...reported),
    queryCurrentAlerts: (requested, signal) => delivery.currentAlerts(requested, signal),
    overridesKnown: (signal) => customResources.ready(signal),
    events: new EventRecorder({ connection, clock, logger, instance }),
  });
  const { held, component: heldComponent } = buildHeldUsage(context, discovery, metering);
  // Load both before any push or alert arrives.
  await enforcement.load();
  await held.load();
  return {
    stream,
    sums: sumsComponent(summing),
    closeMonth: (month, signal) => summing.closeMonth(month, signal),
    held,
    noticedOf: (status) => ({
      drift: drift.reportOf(status.name),
      prices: prices.reportOf(status.name),
      rate: rate.rateOf(status),
      tooSlow: rate.tooSlow(status),
    }),
    enforcement,
    components: [
      // Without the custom resources a destination would count as deleted.
      whenConfigured(customResources, { name: 'delivery', run: (signal) => stream.feed(signal) }),
      {
        name: 'destination watches',
        run: async (signal) => {
          const watches = [drift, invoices, rate];
          await Promise.all(watches.map((watch) => watch.run(signal)));
        },
      },
      // Without the custom resources a price book would count as missing.
      whenConfigured(customResources, { name: 'prices', run: (signal) => prices.run(signal) }),
      { name: 'enforcement', run: (signal) => enforcement.run(signal) },
      heldComponent,
    ],
  };
}

function sumsComponent(summing: Summing): Component {
  return {
    name: 'sums',
    run: async (signal) => {
      await summing.open();
      await aborted(signal);
      await summing.close();
    },
  };
}

/**
 * Builds the path of pushed usage into the ledger. Until the custom resources have been read, usage
 * of unknown tenants is held whatever they say. It is released afterwards if they allow it.
 */
function buildHeldUsage(
  { settings, ledger, clock, customResources }: BuildContext,
  discovery: Discovery,
  { catalog }: Pick<Metering, 'catalog'>,
): { readonly held: HeldUsage; readonly component: Component } {
  let configured = false;
  const isDiscovered = (id: string): boolean => discovery.findTenant(id) !== undefined;
  const held = new HeldUsage({
    ledger,
    clock,
    unknownTenants: () => (configured ? settings.current().ingest.unknownTenants : 'hold'),
    isDiscovered,
    wasServed: (tenant) => wasServed(ledger, tenant),
    isMeasuredHere: ({ metric, tenant }) =>
      isMeasured(catalog().find(metric)) && isDiscovered(tenant),
  });
  const component = whenConfigured(customResources, {
    name: 'held usage',
    run: async (signal) => {
      configured = true;
      const poll = (): void => void held.releaseKnown();
      const endings = [discovery.subscribe(poll), settings.subscribe(poll)];
      poll();
      await aborted(signal);
      for (const end of endings) end();
    },
  });
  return { held, component };
}

/**
 * The stream of this operator. The settings in force name its destinations, and discovery names the
 * departed tenants.
 */
function ownStream(
  context: BuildContext,
  { discovery, observation }: ClusterView,
  metering: Metering,
): Omit<StreamSource, 'totals'> {
  const { settings, environment, ledger, registry, clock, mayAct, customResources } = context;
  const { clusterName: source, region } = environment.identity;
  const isMeter = environment.role === 'meter';
  return {
    name: { source, region },
    ledger,
    registry,
    mayAct,
    catalog: metering.catalog,
    tenants: {
      find: (id) => discovery.findTenant(id),
      subscribe: (listener) => discovery.subscribe(() => listener()),
      openGaps: () => {
        const fillableFrom = clock.now() - settings.current().metering.maxBackfillMs;
        return openGaps(metering.gaps(), observation.tenantClusters, fillableFrom);
      },
    },
    existing: () => customResources.destinations(),
    wanted: () => settings.current().billing.destinations,
    noneWanted: isMeter ? 'a hub feeds its events' : 'events stay in the ledger',
    othersFeed: isMeter,
    subscribe: (listener) => {
      const endings = [settings.subscribe(listener), discovery.subscribe(listener)];
      return () => {
        for (const end of endings) end();
      };
    },
    // A meter accepts departures together with a hub (`acceptDepartures` in fleet-reports.ts).
    departures: () => (isMeter ? [] : discovery.offboarded()),
    depart: departing(discovery, new Revocations(ledger, clock)),
  };
}

/** Revokes the portal tokens of a departed tenant, then hands the tenant over to delivery. */
export function departing(
  discovery: Pick<Discovery, 'acceptOffboarding'>,
  tokens: Pick<Revocations, 'revokeAll'>,
): StreamSource['depart'] {
  return async ({ tenant }, delivery) => {
    const revoked = await tokens.revokeAll(tenant.id);
    const outcome = revoked.kind === 'failed' ? revoked : await delivery.offboard(tenant);
    if (outcome.kind === 'written') discovery.acceptOffboarding(tenant.id);
    return outcome;
  };
}
