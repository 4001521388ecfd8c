import type { MetronomeSettings } from '../../config/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DestinationContext } from '../context.ts';
import type { Destination } from '../destination.ts';
import { createStripeCustomers } from '../stripe/customers.ts';
import { createStripeClient } from '../stripe/stripe-client.ts';
import { tenantsOfStripeCustomer } from '../stripe/tenants-of.ts';
import { ensureMetrics, type MetronomeMetric } from './billable-metrics.ts';
import { findCustomer } from './customers.ts';
import { createMetronomeClient } from './metronome-client.ts';
import { createPriceWatch } from './prices.ts';
import { createProvision } from './provision.ts';
import { createRateCards } from './rate-cards.ts';
import { createSendEvents, SEND_EVENTS } from './send-events.ts';
import { failedStep } from './step.ts';
import { coverAt, type MetronomeTenant } from './tenants.ts';
import { tenantsOfMetronomeCustomer } from './tenants-of.ts';
import { metronomeTotal } from './totals.ts';
import { verifyEvents } from './verify.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How long Metronome takes events back in time, and how long it remembers their ids (facts 3.2). */
const MEMORY_MS = 34 * DAY_MS;
/** An hour less, so that an event is not on its way when it becomes too old. */
const MAX_AGE_MS = MEMORY_MS - HOUR_MS;

/** Metronome, the usage-contract billing provider (spec 1.4). */
export function createMetronome(
  name: string,
  settings: MetronomeSettings,
  { outbound, clock, logger }: DestinationContext,
): Destination {
  const client = createMetronomeClient({ name, outbound, clock, ...settings });
  const stripe =
    settings.stripeLink &&
    createStripeClient({ name, outbound, clock, ...settings.stripeLink, maxRequestsPerSecond: 0 });
  const rateCards = createRateCards(client, clock);
  const tenants = new Map<string, MetronomeTenant>();
  const prices = createPriceWatch(client, clock);
  let metrics: ReadonlyMap<string, MetronomeMetric> = new Map();
  let unusable: ReadonlyMap<string, string> = new Map();
  const sendEvents = createSendEvents({
    client,
    tenants,
    metric: (code) => metrics.get(code),
    unusable: (code) => unusable.get(code),
  });
  const { provision, offboard } = createProvision({
    name,
    settings,
    client,
    rateCards,
    stripeCustomers: stripe && createStripeCustomers(stripe, clock, logger),
    tenants,
    clock,
    logger,
  });

  const watchPrices = async (delivered: readonly UsageEvent[], signal: AbortSignal) => {
    for (const event of delivered) {
      const tenant = tenants.get(event.tenant);
      const metric = metrics.get(event.metric);
      if (tenant === undefined || metric === undefined) continue;
      const cover = coverAt(tenant, Date.parse(event.window_start));
      if (cover.kind !== 'covered' || cover.rateCardId === undefined) continue;
      prices.see(cover.rateCardId, event, metric);
    }
    await prices.look(signal);
  };

  return {
    name,
    type: 'metronome',
    limits: { batchEvents: SEND_EVENTS, maxAgeMs: MAX_AGE_MS, idMemoryMs: MEMORY_MS },
    accepts: ({ informational }) => !informational,

    bootstrap: async (catalog, signal) => {
      const found = await ensureMetrics({ client, logger, now: clock.now() }, catalog, signal);
      if (found.kind !== 'metrics') return failedStep(found);
      metrics = found.byCode;
      unusable = found.unusable;
      return { kind: 'done' };
    },
    provision,
    send: async (events, signal) => {
      const outcomes = await sendEvents(events, signal);
      const delivered = events.filter((_, index) => outcomes[index]?.kind === 'delivered');
      await watchPrices(delivered, signal);
      return outcomes;
    },
    offboard,
    verify: (events, signal) => verifyEvents(client, events, signal),
    totals: async (query, signal) => {
      const known = tenants.get(query.tenant.id)?.customerId ?? query.tenant.metronomeCustomerId;
      const customerId = known ?? (await lookUp(query.tenant.id, signal));
      if (typeof customerId !== 'string') return customerId;
      return metronomeTotal(client, query, customerId, metrics.get(query.metric), signal);
    },
    tenantsOf: async (system, customer, signal) => {
      if (system === 'metronome') return tenantsOfMetronomeCustomer(client, customer, signal);
      return system === 'stripe' && stripe !== undefined
        ? tenantsOfStripeCustomer(stripe, customer, signal)
        : { kind: 'unknown' };
    },
    unpriced: () =>
      prices.unpriced().map((usage) => ({ ...usage, plan: rateCards.nameOf(usage.plan) })),
    close: async () => {
      await client.close();
      await stripe?.close();
    },
  };

  async function lookUp(tenant: string, signal: AbortSignal) {
    const found = await findCustomer(client, tenant, signal);
    if (found.kind === 'found') return found.customer.id;
    if (found.kind === 'none') {
      return { kind: 'unsupported', reason: 'Metronome has no customer of this tenant' } as const;
    }
    if (found.kind === 'refused') return { kind: 'unsupported', reason: found.reason } as const;
    return { kind: 'retry', reason: found.reason } as const;
  }
}
