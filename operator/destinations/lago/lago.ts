import type { LagoSettings } from './settings.ts';
import { decimalFromNanos, nanosFromDecimal, parseDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { DestinationContext } from '../context.ts';
import type { Destination, TotalsOutcome, TotalsQuery } from '../destination.ts';
import { textOf } from '../json.ts';
import { createFilterValues, ensureMetrics, type LagoMetric } from './billable-metrics.ts';
import { failedStep, LagoClient } from './lago-client.ts';
import { createLagoPlans, createUnpricedWatch } from './plans.ts';
import { createProvision } from './provision.ts';
import { CALL_EVENTS, createSendEvents, SEND_EVENTS } from './send-events.ts';
import { createActiveSubscriptions, subscriptionIdOf } from './subscriptions.ts';

/** Downtime is a record, not a charge; utilisation is shown at Lago (spec 1.2, design 7). */
const UTILIZATION = 'tenant_gpu_utilization';
/** How often plans are looked at for prices. */
const LOOK_EVERY_MS = 300_000;

/** The default destination: the Lago billing engine (spec 1.2, 1.3). */
export function createLago(
  name: string,
  settings: LagoSettings,
  { outbound, clock, logger }: DestinationContext,
): Destination {
  const client = new LagoClient({ name, outbound, clock, ...settings });
  const plans = createLagoPlans(client, clock, logger);
  const subscriptions = createActiveSubscriptions(client, clock, settings.planCode);
  const filterValues = createFilterValues(client, clock, logger);
  const unpriced = createUnpricedWatch();
  let metrics: ReadonlyMap<string, LagoMetric> = new Map();
  let unusable: ReadonlyMap<string, string> = new Map();
  const sendEvents = createSendEvents({
    client,
    subscriptions,
    metric: (code) => metrics.get(code),
    unusable: (code) => unusable.get(code),
  });

  /** Looks at the plans of what was delivered now and then. */
  let nextLook = Number.NEGATIVE_INFINITY;
  const watchPrices = async (delivered: readonly UsageEvent[], signal: AbortSignal) => {
    const byPlan = Map.groupBy(
      delivered,
      ({ tenant }) => subscriptions.find(subscriptionIdOf(tenant))?.planCode,
    );
    for (const [plan, events] of byPlan) if (plan !== undefined) unpriced.see(plan, events);
    if (clock.monotonic() < nextLook) return;
    nextLook = clock.monotonic() + LOOK_EVERY_MS;
    for (const plan of unpriced.plans()) await plans.find(plan, signal);
  };

  return {
    name,
    type: 'lago',
    // Lago remembers transaction ids for ever and takes events of any age.
    limits: { batchEvents: SEND_EVENTS },
    accepts: ({ code, informational }) => !informational || code === UTILIZATION,

    bootstrap: async (catalog, signal) => {
      const found = await ensureMetrics(client, catalog, logger, signal);
      if (found.kind !== 'metrics') return failedStep(found);
      metrics = found.byCode;
      unusable = found.unusable;
      filterValues.load(metrics.values());
      const charged = catalog.flatMap(({ code }) => metrics.get(code) ?? []);
      const wanted = { code: settings.planCode, currency: settings.currency };
      const plan = await plans.ensure(wanted, charged, signal);
      if (plan.kind === 'missing') return { kind: 'retry', reason: 'the plan is gone again' };
      if (plan.kind !== 'plan') return failedStep(plan);
      const { code, currency } = plan.plan;
      if (currency === settings.currency) return { kind: 'done' };
      // Every tenant would be refused one by one, and its events parked.
      const reason = `plan "${code}" is priced in ${currency}: BILLING_CURRENCY: "${settings.currency}"`;
      return { kind: 'rejected', reason };
    },
    provision: createProvision({ name, settings, client, plans, subscriptions, logger }),
    send: async (events, signal) => {
      const outcomes = await sendEvents(events, signal);
      const delivered = events.filter((_, index) => outcomes[index]?.kind === 'delivered');
      await filterValues.learn(delivered, signal);
      await watchPrices(delivered, signal);
      return outcomes;
    },
    offboard: async (tenant, signal) => {
      const externalId = subscriptionIdOf(tenant.id);
      const path = `/subscriptions/${encodeURIComponent(externalId)}`;
      const answer = await client.call('DELETE', path, undefined, signal);
      const gone = answer.kind === 'refused' && answer.code === 'subscription_not_found';
      if (answer.kind !== 'ok' && !gone) return failedStep(answer);
      subscriptions.remove(externalId);
      return { kind: 'done' };
    },
    totals: (query, signal) => lagoTotal(client, query, metrics.get(query.metric)?.field, signal),
    unpriced: () => unpriced.unpriced((code) => plans.known(code)),
    eventsPerSecond: () => {
      const calls = client.callsPerSecond();
      return calls === undefined ? undefined : calls * CALL_EVENTS;
    },
    close: () => client.close(),
  };
}

/**
 * What Lago has of a tenant's metric in a stretch of time, summed from its own events: its current
 * usage lags behind and knows only the period that is running (facts 7).
 */
export async function lagoTotal(
  client: LagoClient,
  { tenant, metric, from, to }: TotalsQuery,
  field: string | undefined,
  signal: AbortSignal,
): Promise<TotalsOutcome> {
  if (field === undefined) {
    return { kind: 'unsupported', reason: `Lago has no billable metric: metric: "${metric}"` };
  }
  const query = new URLSearchParams({
    external_subscription_id: subscriptionIdOf(tenant.id),
    code: metric,
    timestamp_from: new Date(from).toISOString(),
    timestamp_to: new Date(to).toISOString(),
  });
  const list = await client.list(`/events?${query.toString()}`, 'events', signal);
  if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
  if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
  let nanos = 0n;
  for (const event of list.items) {
    const at = Date.parse(textOf(event, 'timestamp') ?? '');
    if (at < from || at >= to || !isRecord(event['properties'])) continue;
    const quantity = parseDecimal(String(event['properties'][field]));
    if (quantity !== undefined) nanos += nanosFromDecimal(quantity);
  }
  return { kind: 'total', quantity: decimalFromNanos(nanos) };
}
