import type { MetricDefinition } from '../../model/catalog.ts';
import { signedFromNanos, nanosFromDecimal, roundToDecimal } from '../../model/decimal.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  Alerts,
  CustomerAnswer,
  DeliveryOutcome,
  Destination,
  DestinationContext,
  StepOutcome,
  Sums,
  RecordedTotalOutcome,
  RecordedTotalQuery,
  VerifyOutcome,
} from '../destination.ts';
import type { Invoices, InvoicesOutcome, InvoicesQuery } from '../invoices.ts';
import type { Prices } from '../prices.ts';
import { failedStep } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import { StripeCustomers, tenantsOfStripeCustomer } from '../stripe/customers.ts';
import { StripeClient } from '../stripe/stripe-client.ts';
import { ensureMetrics, type MetronomeMetric } from './billable-metrics.ts';
import { coverAt, type MetronomeTenant } from './contract-plan.ts';
import { findCustomer, tenantsOfMetronomeCustomer } from './customers.ts';
import { listInvoices } from './invoices.ts';
import { MetronomeClient } from './metronome-client.ts';
import { pricesAtMetronome } from './card-prices.ts';
import { MetronomeProvisioner } from './provision.ts';
import { MetronomeUnpricedWatch, RateCards } from './rate-cards.ts';
import { MetronomeSender, SEND_EVENTS } from './send-events.ts';
import type { MetronomeSettings } from './settings.ts';
import { MetronomeStatus } from './current-alerts.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How old events may be, and how long Metronome remembers their ids. */
const MEMORY_MS = 34 * DAY_MS;
/** An hour less, so that an event does not become too old on its way. */
const MAX_AGE_MS = MEMORY_MS - HOUR_MS;
/** Ids in one search. */
const SEARCH_IDS = 100;

/** Metronome, the usage-contract billing provider (docs/how-to/destinations/metronome.md). */
export class Metronome implements Destination {
  readonly name: string;
  readonly type = 'metronome';
  readonly limits = {
    batchEvents: SEND_EVENTS,
    maxAgeMs: MAX_AGE_MS,
    idMemoryMs: MEMORY_MS,
  };
  readonly customers: MetronomeProvisioner;
  readonly sums: Sums;
  readonly invoices: Invoices;
  readonly prices: Prices;
  readonly alerts: Required<Pick<Alerts, 'current' | 'tenantsOf'>>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #client: MetronomeClient;
  /** Present where customers are linked to Stripe. */
  readonly #stripe: StripeClient | undefined;
  readonly #priceWatch: MetronomeUnpricedWatch;
  readonly #sender: MetronomeSender;
  readonly #tenants = new Map<string, MetronomeTenant>();
  #metrics: ReadonlyMap<string, MetronomeMetric> = new Map();
  #unusable: ReadonlyMap<string, string> = new Map();

  constructor(
    name: string,
    settings: MetronomeSettings,
    { outbound, clock, logger }: DestinationContext,
  ) {
    this.name = name;
    this.#clock = clock;
    this.#logger = logger;
    const client = new MetronomeClient({ name, outbound, clock, ...settings });
    this.#client = client;
    this.#stripe =
      settings.stripeLink &&
      new StripeClient({ name, outbound, clock, ...settings.stripeLink, maxRequestsPerSecond: 0 });
    const rateCards = new RateCards(client, clock);
    this.#priceWatch = new MetronomeUnpricedWatch(client, clock);
    this.#sender = new MetronomeSender({
      client,
      tenants: this.#tenants,
      metric: (code) => this.#metrics.get(code),
      unusable: (code) => this.#unusable.get(code),
    });
    this.customers = new MetronomeProvisioner({
      name,
      settings,
      client,
      rateCards,
      stripeCustomers: this.#stripe && new StripeCustomers(this.#stripe, clock, logger),
      tenants: this.#tenants,
      clock,
      logger,
    });
    this.sums = { total: (query, signal) => this.#total(query, signal) };
    this.invoices = {
      closedPeriods:
        'Metronome accepts it, and a finalized invoice does not change: it is billed only once that invoice is voided and regenerated',
      list: (query, signal) => this.#invoicesOf(query, signal),
    };
    const { rateCard } = settings;
    this.prices = {
      compare: (query, signal) =>
        pricesAtMetronome({ client, rateCards, rateCard, now: clock.now() }, query, signal),
      unpriced: () =>
        this.#priceWatch
          .unpriced()
          .map((usage) => ({ ...usage, plan: rateCards.nameOf(usage.plan) })),
    };
    const status = new MetronomeStatus(client);
    this.alerts = {
      current: (requested, signal) => {
        const customers = [...this.#tenants.values()].map(({ customerId }) => customerId);
        return status.poll(new Set(customers), requested, signal);
      },
      tenantsOf: (...call) => this.#tenantsOf(...call),
    };
  }

  accepts({ informational }: MetricDefinition): boolean {
    return !informational;
  }

  async bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    const options = { client: this.#client, logger: this.#logger, now: this.#clock.now() };
    const found = await ensureMetrics(options, catalog, signal);
    if (found.kind !== 'metrics') return failedStep(found);
    this.#metrics = found.byCode;
    this.#unusable = found.unusable;
    return { kind: 'done' };
  }

  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const outcomes = await this.#sender.send(events, signal);
    const delivered = events.filter((_, index) => outcomes[index]?.kind === 'delivered');
    await this.#watchPrices(delivered, signal);
    return outcomes;
  }

  /** Returns which events Metronome has, by their transaction ids. */
  async verify(events: readonly UsageEvent[], signal: AbortSignal): Promise<VerifyOutcome> {
    const known = new Set<string>();
    for (let start = 0; start < events.length; start += SEARCH_IDS) {
      const transactionIds = events.slice(start, start + SEARCH_IDS).map(({ id }) => id);
      const answer = await this.#client.post('/v1/events/search', { transactionIds }, signal);
      if (answer.kind === 'retry') return answer;
      if (answer.kind !== 'ok') return { kind: 'retry', reason: answer.reason };
      if (!Array.isArray(answer.value))
        return { kind: 'retry', reason: 'the answer has no events' };
      for (const found of (answer.value as unknown[]).filter(isRecord)) {
        const id = textOf(found, 'transaction_id');
        if (id !== undefined) known.add(id);
      }
    }
    return { kind: 'verified', known };
  }

  /**
   * Returns the sum of full UTC days, the only bounds that Metronome takes. If a metric has a
   * successor, both count, and the older one has all usage.
   */
  async #total(query: RecordedTotalQuery, signal: AbortSignal): Promise<RecordedTotalOutcome> {
    const customerId = await this.#customerOf(query.tenant, signal);
    if (typeof customerId !== 'string') return customerId;
    const metric = this.#metrics.get(query.metric);
    if (metric === undefined) {
      const reason = `Metronome has no billable metric: metric: "${query.metric}"`;
      return { kind: 'unsupported', reason };
    }
    const body = {
      starting_on: new Date(query.from).toISOString(),
      ending_before: new Date(query.to).toISOString(),
      window_size: 'NONE',
      customer_ids: [customerId],
      billable_metrics: metric.ids.map((id) => ({ id })),
    };
    const list = await this.#client.list('/v1/usage', body, signal, 'unsized');
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
    return { kind: 'total', quantity: signedFromNanos(nanos) };
  }

  async #invoicesOf(
    { tenant, since }: InvoicesQuery,
    signal: AbortSignal,
  ): Promise<InvoicesOutcome> {
    const customerId = await this.#customerOf(tenant, signal);
    if (typeof customerId !== 'string') return customerId;
    const contracts = await this.customers.isChanged(tenant.id, signal);
    if (contracts.kind !== 'contracts') return { kind: 'retry', reason: contracts.reason };
    const listed = await listInvoices(this.#client, customerId, this.#metrics, since, signal);
    return contracts.isChanged && listed.kind === 'invoices'
      ? { ...listed, recheck: true }
      : listed;
  }

  async #tenantsOf(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer> {
    if (system === this.type) return tenantsOfMetronomeCustomer(this.#client, customer, signal);
    return system === 'stripe' && this.#stripe !== undefined
      ? tenantsOfStripeCustomer(this.#stripe, customer, signal)
      : { kind: 'unknown' };
  }

  async close(): Promise<void> {
    await this.#client.close();
    await this.#stripe?.close();
  }

  async #watchPrices(delivered: readonly UsageEvent[], signal: AbortSignal): Promise<void> {
    for (const event of delivered) {
      const tenant = this.#tenants.get(event.tenant);
      const metric = this.#metrics.get(event.metric);
      if (tenant === undefined || metric === undefined) continue;
      const cover = coverAt(tenant, Date.parse(event.window_start));
      if (cover.kind !== 'covered' || cover.rateCardId === undefined) continue;
      this.#priceWatch.see(cover.rateCardId, event, metric);
    }
    await this.#priceWatch.poll(signal);
  }

  async #customerOf(
    { id, customerIds }: Tenant,
    signal: AbortSignal,
  ): Promise<string | Exclude<RecordedTotalOutcome, { kind: 'total' }>> {
    const known = this.#tenants.get(id)?.customerId ?? customerIds?.['metronome'];
    if (known !== undefined) return known;
    const found = await findCustomer(this.#client, id, signal);
    if (found.kind === 'found') return found.customer.id;
    if (found.kind === 'none') {
      return { kind: 'unsupported', reason: 'Metronome has no customer of this tenant' };
    }
    if (found.kind === 'refused') return { kind: 'unsupported', reason: found.reason };
    return { kind: 'retry', reason: found.reason };
  }
}
