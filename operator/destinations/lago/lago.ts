import type { MetricDefinition } from '../../model/catalog.ts';
import { signedFromNanos, nanosFromDecimal, parseSigned } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  ChangeOutcome,
  DeliveryOutcome,
  Destination,
  DestinationContext,
  PeriodEndOutcome,
  ProvisionOutcome,
  PublicKeyOutcome,
  StandingOutcome,
  StepOutcome,
  TotalsOutcome,
  TotalsQuery,
  UnpricedUsage,
} from '../destination.ts';
import type { InvoicesOutcome, InvoicesQuery } from '../invoices.ts';
import { objectOf, textOf } from '../json.ts';
import type { LateBiller } from '../late.ts';
import { rsaKey } from './jwt.ts';
import { ensureMetrics, FilterValues, type LagoMetric } from './billable-metrics.ts';
import { LagoLate } from './late.ts';
import { failedStep, LagoClient } from './lago-client.ts';
import { LagoPlans, UnpricedWatch } from './plans.ts';
import { LagoProvisioner } from './provision.ts';
import { CALL_EVENTS, LagoSender, SEND_EVENTS } from './send-events.ts';
import type { LagoSettings } from './settings.ts';
import type { PricesOutcome, PricesQuery } from '../prices.ts';
import { pricesAtLago } from './prices.ts';
import { BILLING_RUN_MS, periodStartOf } from './billing-period.ts';
import { idsOf } from './customers.ts';
import { listInvoices } from './invoices.ts';
import { standingAtLago } from './standing.ts';
import { ActiveSubscriptions } from './subscriptions.ts';

/** Downtime is a record, not a charge; utilisation is shown at Lago (docs/events.md#metrics). */
const UTILIZATION = 'tenant_gpu_utilization';
/** How often plans are looked at for prices. */
const LOOK_EVERY_MS = 300_000;

/** The default destination: the Lago billing engine (docs/destinations/lago.md). */
export function createLago(
  name: string,
  settings: LagoSettings,
  context: DestinationContext,
): Destination {
  return new Lago(name, settings, context);
}

class Lago implements Destination {
  readonly name: string;
  readonly type = 'lago';
  /** Lago remembers transaction ids for ever and takes events of any age. */
  readonly limits = { batchEvents: SEND_EVENTS, negativeQuantities: true } as const;
  readonly closedPeriods =
    'Lago takes it, and it is on no invoice: one that is finalized does not change, and the next begins after it';
  readonly late: LateBiller;
  readonly #settings: LagoSettings;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #client: LagoClient;
  readonly #plans: LagoPlans;
  readonly #subscriptions: ActiveSubscriptions;
  readonly #filterValues: FilterValues;
  readonly #unpriced = new UnpricedWatch();
  readonly #sender: LagoSender;
  readonly #provisioner: LagoProvisioner;
  #metrics: ReadonlyMap<string, LagoMetric> = new Map();
  #unusable: ReadonlyMap<string, string> = new Map();
  /** When plans are looked at for prices again. */
  #nextLook = Number.NEGATIVE_INFINITY;

  constructor(
    name: string,
    settings: LagoSettings,
    { outbound, clock, logger }: DestinationContext,
  ) {
    this.name = name;
    this.#settings = settings;
    this.#clock = clock;
    this.#logger = logger;
    const client = new LagoClient({ name, outbound, clock, ...settings });
    const plans = new LagoPlans(client, clock, logger);
    const subscriptions = new ActiveSubscriptions(client, clock, settings.planCode);
    this.#client = client;
    this.#plans = plans;
    this.#subscriptions = subscriptions;
    this.#filterValues = new FilterValues(client, clock, logger);
    const fieldOf = (metric: string) => this.#metrics.get(metric)?.field;
    this.late = new LagoLate({ client, fieldOf });
    this.#sender = new LagoSender({
      client,
      subscriptions,
      subscriptionOf: (tenant) => this.#provisioner.subscriptionOf(tenant),
      metric: (code) => this.#metrics.get(code),
      unusable: (code) => this.#unusable.get(code),
    });
    this.#provisioner = new LagoProvisioner({
      name,
      settings,
      client,
      plans,
      subscriptions,
      clock,
      logger,
    });
  }

  accepts({ code, informational }: MetricDefinition): boolean {
    return !informational || code === UTILIZATION;
  }

  async bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    const found = await ensureMetrics(this.#client, catalog, this.#logger, signal);
    if (found.kind !== 'metrics') return failedStep(found);
    this.#metrics = found.byCode;
    this.#unusable = found.unusable;
    this.#filterValues.load(found.byCode.values());
    const charged = catalog.flatMap(({ code }) => found.byCode.get(code) ?? []);
    const { planCode, currency: wanted } = this.#settings;
    const plan = await this.#plans.ensure({ code: planCode, currency: wanted }, charged, signal);
    if (plan.kind === 'missing') return { kind: 'retry', reason: 'the plan is gone again' };
    if (plan.kind !== 'plan') return failedStep(plan);
    const { code, currency } = plan.plan;
    if (currency === wanted) return { kind: 'done' };
    // Every tenant would be refused one by one, and its events parked.
    const reason = `plan "${code}" is priced in ${currency}: BILLING_CURRENCY: "${wanted}"`;
    return { kind: 'rejected', reason };
  }

  provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome> {
    return this.#provisioner.provision(tenant, signal);
  }

  change(tenant: Tenant, _before: number, signal: AbortSignal): Promise<ChangeOutcome> {
    return this.#provisioner.change(tenant, signal);
  }

  periodEnd(tenant: Tenant, now: number, signal: AbortSignal): Promise<PeriodEndOutcome> {
    return this.#provisioner.periodEnd(tenant, now, signal);
  }

  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const outcomes = await this.#sender.send(events, signal);
    const delivered = events.filter((_, index) => outcomes[index]?.kind === 'delivered');
    await this.#filterValues.learn(delivered, signal);
    await this.#watchPrices(delivered, signal);
    return outcomes;
  }

  offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    return this.#provisioner.end(tenant, signal);
  }

  /**
   * Summed from the tenant's own events in a stretch of time: Lago's current usage lags behind and knows
   * only the period that is running.
   */
  async totals(query: TotalsQuery, signal: AbortSignal): Promise<TotalsOutcome> {
    const { tenant, metric, from, to } = query;
    const field = this.#metrics.get(metric)?.field;
    if (field === undefined) {
      return { kind: 'unsupported', reason: `Lago has no billable metric: metric: "${metric}"` };
    }
    const filter = new URLSearchParams({
      external_subscription_id: idsOf(tenant).subscription,
      code: metric,
      timestamp_from: new Date(from).toISOString(),
      timestamp_to: new Date(to).toISOString(),
    });
    const list = await this.#client.list(`/events?${filter.toString()}`, 'events', signal);
    if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
    if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
    let nanos = 0n;
    const seen = new Set<string>();
    for (const event of list.items) {
      // With ClickHouse a repeat is listed beside the first, and billed once.
      const key = JSON.stringify([event['transaction_id'], event['timestamp']]);
      if (seen.has(key)) continue;
      seen.add(key);
      const at = Date.parse(textOf(event, 'timestamp') ?? '');
      if (at < from || at >= to || !isRecord(event['properties'])) continue;
      const quantity = parseSigned(String(event['properties'][field]));
      if (quantity !== undefined) nanos += nanosFromDecimal(quantity);
    }
    return { kind: 'total', quantity: signedFromNanos(nanos) };
  }

  standing(asked: readonly string[], signal: AbortSignal): Promise<StandingOutcome> {
    return standingAtLago(this.#client, asked, this.#clock.now(), signal);
  }

  async publicKey(signal: AbortSignal): Promise<PublicKeyOutcome> {
    const answer = await this.#client.get('/webhooks/json_public_key', signal);
    if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
    const encoded = textOf(objectOf(answer.body, 'webhook'), 'public_key') ?? '';
    const key = Buffer.from(encoded, 'base64').toString();
    if (rsaKey(key) !== undefined) return { kind: 'key', key };
    return {
      kind: 'failed',
      reason: 'Lago published no RSA key: /api/v1/webhooks/json_public_key',
    };
  }

  invoices({ tenant, since }: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome> {
    return listInvoices(this.#client, idsOf(tenant), since, signal);
  }

  /** Lago makes the invoices of a period in its first hour, by UTC; `change` knows each customer's own. */
  quietUntil(now: number): number | undefined {
    const begun = ['monthly', 'weekly'].map((interval) => periodStartOf(interval, 'UTC', now));
    const until = Math.max(...begun) + BILLING_RUN_MS;
    return now < until ? until : undefined;
  }

  unpriced(): readonly UnpricedUsage[] {
    return this.#unpriced.unpriced((code) => this.#plans.known(code));
  }

  comparePrices(query: PricesQuery, signal: AbortSignal): Promise<PricesOutcome> {
    return pricesAtLago(this.#client, this.#settings.planCode, query, signal);
  }

  eventsPerSecond(): number | undefined {
    const calls = this.#client.callsPerSecond();
    return calls === undefined ? undefined : calls * CALL_EVENTS;
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** Looks at the plans of what was delivered now and then. Utilisation is charged nowhere, so it lacks no price. */
  async #watchPrices(delivered: readonly UsageEvent[], signal: AbortSignal): Promise<void> {
    const byPlan = Map.groupBy(
      delivered.filter(({ metric }) => metric !== UTILIZATION),
      ({ tenant }) => this.#subscriptions.find(this.#provisioner.subscriptionOf(tenant))?.planCode,
    );
    for (const [plan, events] of byPlan) if (plan !== undefined) this.#unpriced.see(plan, events);
    if (this.#clock.monotonic() < this.#nextLook) return;
    this.#nextLook = this.#clock.monotonic() + LOOK_EVERY_MS;
    for (const plan of this.#unpriced.plans()) await this.#plans.find(plan, signal);
  }
}
