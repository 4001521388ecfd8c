import type { StripeSettings } from './settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { DestinationContext } from '../context.ts';
import type { DeliveryOutcome, Destination, StepOutcome } from '../destination.ts';
import { failedStep } from '../json-api/answer.ts';
import { createStripeCustomers, tenantsOfStripeCustomer } from './customers.ts';
import { createErrorReports } from './error-reports.ts';
import { createVerify, stripeTotal } from './event-summaries.ts';
import { createStripeMeters } from './meters.ts';
import { createStripePrices, createUnpricedWatch } from './prices.ts';
import { batchEvents, createSendEvents } from './send-events.ts';
import { StripeClient } from './stripe-client.ts';
import { createStripeSubscriptions } from './subscriptions.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Stripe takes events of the last 35 days (facts 2.4); an hour of it is left for the way there. */
const MAX_AGE_MS = 35 * DAY_MS - HOUR_MS;
/** Stripe remembers identifiers for a day. */
const ID_MEMORY_MS = DAY_MS;

const DONE: StepOutcome = { kind: 'done' };

/** The card payment provider Stripe: usage as meter events, charged by prices (spec 1.4). */
export function createStripe(
  name: string,
  settings: StripeSettings,
  { outbound, clock, logger }: DestinationContext,
): Destination {
  const client = new StripeClient({ name, outbound, clock, ...settings });
  const meters = createStripeMeters(client, logger);
  const customers = createStripeCustomers(client, clock, logger);
  const prices = createStripePrices(client, clock);
  const common = { name, settings, client, logger };
  const subscriptions = createStripeSubscriptions({ ...common, prices, clock });
  const errorReports = createErrorReports(name, client, clock, logger);
  const unpriced = createUnpricedWatch(settings.splitMetersBy);
  const metricNames = new Map<string, string>();
  const tenants = new Map<string, Tenant>();
  const sendEvents = createSendEvents({
    ...common,
    meters,
    customers,
    metricName: (code) => metricNames.get(code) ?? code,
  });

  /** Brings the subscriptions of tenants up to date before their usage comes; what went wrong, by tenant. */
  const keepUp = async (events: readonly UsageEvent[], signal: AbortSignal) => {
    const among = new Set(events.map(({ tenant }) => tenant));
    const troubles = new Map<string, DeliveryOutcome>();
    for (const [tenant, trouble] of await subscriptions.keepUp(among, signal)) {
      const { reason } = trouble;
      troubles.set(tenant, trouble.kind === 'rejected' ? { kind: 'provision', reason } : trouble);
    }
    return troubles;
  };

  const provision = async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
    tenants.set(tenant.id, tenant);
    const customer = await customers.ensure(tenant, signal);
    if (customer.kind !== 'customer') return customer;
    return settings.autoSubscribe ? subscriptions.subscribe(tenant, customer.id, signal) : DONE;
  };

  const watchPrices = async (delivered: readonly UsageEvent[], signal: AbortSignal) => {
    for (const [tenant, events] of Map.groupBy(delivered, (event) => event.tenant)) {
      unpriced.see(subscriptions.pricesOf(tenant)?.plan ?? settings.planCode, events);
    }
    // A key that may not read prices can do without.
    await prices.refresh(signal);
  };

  /** Without subscriptions of ours any price of the meter will do. */
  const isPriced = (plan: string, meterNamed: string): boolean | undefined => {
    const meter = meters.find(meterNamed);
    const all = prices.current();
    if (all === undefined || meter === undefined) return undefined;
    return all.some(
      (price) => price.meter === meter.id && (!settings.autoSubscribe || price.plan === plan),
    );
  };

  const verify = createVerify({
    client,
    meters,
    customers,
    splitBy: settings.splitMetersBy,
    pinned: (tenant) => tenants.get(tenant)?.customerIds?.['stripe'],
  });

  return {
    name,
    type: 'stripe',
    limits: {
      batchEvents: batchEvents(client.eventsPerSecond),
      maxAgeMs: MAX_AGE_MS,
      idMemoryMs: ID_MEMORY_MS,
    },
    accepts: ({ informational }) => !informational,

    bootstrap: async (catalog, signal) => {
      const failed = await meters.load(signal);
      if (failed !== undefined) return failedStep(failed);
      for (const { code, name: shown } of catalog) {
        metricNames.set(code, shown);
        const ensured = await meters.ensure(code, shown, signal);
        if (ensured.kind === 'retry' || ensured.kind === 'hold') return failedStep(ensured);
        // Only the events of this metric are concerned.
        const problem = ensured.kind === 'meter' ? ensured.meter.problem : ensured.reason;
        if (problem !== undefined) logger.warn(`[bootstrap] warning: metric "${code}": ${problem}`);
      }
      return DONE;
    },
    provision,
    send: async (events, signal) => {
      const troubles = await keepUp(events, signal);
      const ready = events.filter(({ tenant }) => !troubles.has(tenant));
      const outcomes = await sendEvents(ready, signal);
      const byEvent = new Map(ready.map((event, index) => [event, outcomes[index]]));
      const delivered = ready.filter((event) => byEvent.get(event)?.kind === 'delivered');
      await watchPrices(delivered, signal);
      await errorReports.look(signal);
      return events.map(
        (event) =>
          byEvent.get(event) ?? troubles.get(event.tenant) ?? { kind: 'retry', reason: 'not sent' },
      );
    },
    offboard: async (tenant, signal) => {
      tenants.delete(tenant.id);
      if (!settings.cancelOnRemove) return DONE;
      const customer = await customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
      if (customer.kind === 'none') return DONE;
      if (customer.kind !== 'customer') return customer;
      return subscriptions.cancel(tenant.id, customer.id, signal);
    },
    verify,
    totals: (query, signal) => stripeTotal(client, meters, customers, query, signal),
    tenantsOf: async (system, customer, signal) =>
      system === 'stripe' ? tenantsOfStripeCustomer(client, customer, signal) : { kind: 'unknown' },
    lateRefusals: () => errorReports.current(),
    unpriced: () => unpriced.unpriced(isPriced),
    eventsPerSecond: () => client.eventsPerSecond,
    close: () => client.close(),
  };
}
