import type { MetronomeSettings } from './settings.ts';
import { decimalFromNanos, nanosFromDecimal, roundToDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { DestinationContext } from '../context.ts';
import type { Destination, TotalsOutcome, TotalsQuery, VerifyOutcome } from '../destination.ts';
import { failedStep } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import { createStripeCustomers, tenantsOfStripeCustomer } from '../stripe/customers.ts';
import { StripeClient } from '../stripe/stripe-client.ts';
import { ensureMetrics, type MetronomeMetric } from './billable-metrics.ts';
import { coverAt, type MetronomeTenant } from './contract-plan.ts';
import { findCustomer, tenantsOfMetronomeCustomer } from './customers.ts';
import { MetronomeClient } from './metronome-client.ts';
import { createProvision } from './provision.ts';
import { createPriceWatch, createRateCards } from './rate-cards.ts';
import { createSendEvents, SEND_EVENTS } from './send-events.ts';

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
  const client = new MetronomeClient({ name, outbound, clock, ...settings });
  const stripe =
    settings.stripeLink &&
    new StripeClient({ name, outbound, clock, ...settings.stripeLink, maxRequestsPerSecond: 0 });
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
      const known =
        tenants.get(query.tenant.id)?.customerId ?? query.tenant.customerIds?.['metronome'];
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

/**
 * What Metronome has of a customer's metric in whole UTC days, the only bounds that it takes (facts
 * 3.6). While a metric is followed by another, both count: the older one has all of it.
 */
export async function metronomeTotal(
  client: MetronomeClient,
  { metric: code, from, to }: TotalsQuery,
  customerId: string,
  metric: MetronomeMetric | undefined,
  signal: AbortSignal,
): Promise<TotalsOutcome> {
  if (metric === undefined) {
    return { kind: 'unsupported', reason: `Metronome has no billable metric: metric: "${code}"` };
  }
  const body = {
    starting_on: new Date(from).toISOString(),
    ending_before: new Date(to).toISOString(),
    window_size: 'NONE',
    customer_ids: [customerId],
    billable_metrics: metric.ids.map((id) => ({ id })),
  };
  const list = await client.list('/v1/usage', body, signal, 'unsized');
  if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
  if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
  const sums = new Map<unknown, bigint>();
  for (const item of list.items) {
    if (typeof item['value'] !== 'number') continue;
    const value = roundToDecimal(String(item['value']));
    if (value === undefined) continue;
    const id = item['billable_metric_id'];
    sums.set(id, (sums.get(id) ?? 0n) + nanosFromDecimal(value));
  }
  const nanos = [...sums.values()].reduce((most, sum) => (sum > most ? sum : most), 0n);
  return { kind: 'total', quantity: decimalFromNanos(nanos) };
}

/** Ids in one question. */
const SEARCH_IDS = 100;

/** Which of the events Metronome has, by their transaction ids. */
export async function verifyEvents(
  client: MetronomeClient,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<VerifyOutcome> {
  const known = new Set<string>();
  for (let start = 0; start < events.length; start += SEARCH_IDS) {
    const transactionIds = events.slice(start, start + SEARCH_IDS).map(({ id }) => id);
    const answer = await client.post('/v1/events/search', { transactionIds }, signal);
    if (answer.kind === 'retry') return answer;
    if (answer.kind !== 'ok') return { kind: 'retry', reason: answer.reason };
    if (!Array.isArray(answer.value)) return { kind: 'retry', reason: 'the answer has no events' };
    for (const found of (answer.value as unknown[]).filter(isRecord)) {
      const id = textOf(found, 'transaction_id');
      if (id !== undefined) known.add(id);
    }
  }
  return { kind: 'verified', known };
}
