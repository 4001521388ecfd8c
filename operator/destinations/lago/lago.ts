import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  DeliveryOutcome,
  Destination,
  DestinationContext,
  DestinationLimits,
  StepOutcome,
  Sums,
} from '../destination.ts';
import type { Invoices } from '../invoices.ts';
import type { Prices } from '../prices.ts';
import { ensureMetrics, FilterValues, type LagoMetric } from './billable-metrics.ts';
import { LagoInvoices } from './invoices.ts';
import { failedStep, LagoClient } from './lago-client.ts';
import { LagoLate } from './late.ts';
import { LagoPlans, LagoUnpricedWatch } from './plans.ts';
import { pricesAtLago } from './prices.ts';
import { LagoProvisioner } from './provision.ts';
import { CALL_EVENTS, LagoSender, SEND_EVENTS } from './send-events.ts';
import type { LagoSettings } from './settings.ts';
import { LagoStatus } from './current-alerts.ts';
import { ActiveSubscriptions } from './subscriptions.ts';
import { sumAtLago } from './sums.ts';

/** Downtime is no charge; Lago only shows utilisation (docs/reference/events.md#metrics). */
const UTILIZATION = 'tenant_gpu_utilization';
/** How often the destination reads plans for prices. */
const POLL_EVERY_MS = 300_000;

/** The default destination: the Lago billing engine (docs/how-to/destinations/lago.md). */
export class Lago implements Destination {
  readonly name: string;
  readonly type = 'lago';
  readonly customers: LagoProvisioner;
  readonly plans: LagoProvisioner;
  readonly sums: Sums;
  readonly invoices: Invoices;
  readonly late: LagoLate;
  readonly prices: Prices;
  readonly alerts: LagoStatus;
  readonly #settings: LagoSettings;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #client: LagoClient;
  readonly #plans: LagoPlans;
  readonly #subscriptions: ActiveSubscriptions;
  readonly #filterValues: FilterValues;
  readonly #unpriced = new LagoUnpricedWatch();
  readonly #sender: LagoSender;
  #metrics: ReadonlyMap<string, LagoMetric> = new Map();
  #unusable: ReadonlyMap<string, string> = new Map();
  /** When the destination reads plans for prices again. */
  #nextPoll = Number.NEGATIVE_INFINITY;

  constructor(name: string, settings: LagoSettings, context: DestinationContext) {
    const { outbound, clock, logger } = context;
    this.name = name;
    this.#settings = settings;
    this.#clock = clock;
    this.#logger = logger;
    const client = new LagoClient({ name, outbound, clock, ...settings });
    const plans = new LagoPlans(client, clock, logger);
    const subscriptions = new ActiveSubscriptions(client, clock, settings.planCode);
    const shared = { name, settings, client, plans, subscriptions, clock, logger };
    const provisioner = new LagoProvisioner(shared);
    const fieldOf = (metric: string) => this.#metrics.get(metric)?.field;
    this.#client = client;
    this.#plans = plans;
    this.#subscriptions = subscriptions;
    this.#filterValues = new FilterValues(client, clock, logger);
    this.#sender = new LagoSender({
      client,
      subscriptions,
      subscriptionOf: (tenant) => provisioner.subscriptionOf(tenant),
      metric: (code) => this.#metrics.get(code),
      unusable: (code) => this.#unusable.get(code),
    });
    this.customers = provisioner;
    this.plans = provisioner;
    this.sums = { total: (query, signal) => sumAtLago(client, fieldOf, query, signal) };
    this.invoices = new LagoInvoices(client);
    this.late = new LagoLate(client, fieldOf);
    this.prices = {
      compare: (query, signal) => pricesAtLago(client, settings.planCode, query, signal),
      unpriced: () => this.#unpriced.unpriced((code) => plans.known(code)),
    };
    this.alerts = new LagoStatus(client, clock);
  }

  /** Lago remembers transaction ids for ever and takes events of any age. */
  get limits(): DestinationLimits {
    const calls = this.#client.callsPerSecond();
    return {
      batchEvents: SEND_EVENTS,
      negativeQuantities: true,
      eventsPerSecond: calls === undefined ? undefined : calls * CALL_EVENTS,
    };
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
    if (plan.kind === 'missing')
      return { kind: 'retry', reason: 'the plan was deleted in the meantime' };
    if (plan.kind !== 'plan') return failedStep(plan);
    const { code, currency } = plan.plan;
    if (currency === wanted) return { kind: 'done' };
    // Without this Lago would refuse every tenant one by one, and their events would wait.
    const reason = `plan "${code}" is priced in ${currency}: BILLING_CURRENCY: "${wanted}"`;
    return { kind: 'rejected', reason };
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

  close(): Promise<void> {
    return this.#client.close();
  }

  /** Polls the plans of delivered usage. Utilisation is charged nowhere, so it lacks no price. */
  async #watchPrices(delivered: readonly UsageEvent[], signal: AbortSignal): Promise<void> {
    const byPlan = Map.groupBy(
      delivered.filter(({ metric }) => metric !== UTILIZATION),
      ({ tenant }) => this.#subscriptions.find(this.customers.subscriptionOf(tenant))?.planCode,
    );
    for (const [plan, events] of byPlan) if (plan !== undefined) this.#unpriced.see(plan, events);
    if (this.#clock.monotonic() < this.#nextPoll) return;
    this.#nextPoll = this.#clock.monotonic() + POLL_EVERY_MS;
    for (const plan of this.#unpriced.plans()) await this.#plans.find(plan, signal);
  }
}
