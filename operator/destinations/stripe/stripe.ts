import type { MetricDefinition } from '../../model/catalog.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  BucketEvent,
  ChangeOutcome,
  CustomerAnswer,
  DeliveryOutcome,
  Destination,
  DestinationContext,
  DestinationLimits,
  LateRefusal,
  PeriodEndOutcome,
  ProvisionOutcome,
  StandingOutcome,
  StepOutcome,
  TotalsOutcome,
  TotalsQuery,
  UnpricedUsage,
  VerifyOutcome,
} from '../destination.ts';
import type { InvoicesOutcome, InvoicesQuery } from '../invoices.ts';
import { failedStep } from '../json-api/answer.ts';
import type { LateBiller } from '../late.ts';
import { StripeCustomers, tenantsOfStripeCustomer } from './customers.ts';
import { createErrorReports, type ErrorReports } from './error-reports.ts';
import { EventSummaries } from './event-summaries.ts';
import { StripeInvoices } from './invoices.ts';
import { StripeLate } from './late.ts';
import { Losses } from './losses.ts';
import { StripeMeters } from './meters.ts';
import type { PricesOutcome, PricesQuery } from '../prices.ts';
import { pricesAtStripe } from './tagged-prices.ts';
import { StripePriceWatch } from './price-watch.ts';
import { StripePrices } from './prices.ts';
import { MeterEventStream } from './meter-event-stream.ts';
import { batchEvents, NO_CUSTOMER, NO_METER, StripeSender } from './send-events.ts';
import type { StripeSettings } from './settings.ts';
import { standingAtStripe } from './standing.ts';
import { StreamSender } from './stream-events.ts';
import { isLive, StripeClient } from './stripe-client.ts';
import { StripeSubscriptions } from './subscriptions.ts';
import { UninvoicedUsage } from './uninvoiced.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Stripe takes events of the last 35 days; an hour of it is left for the way there. */
const MAX_AGE_MS = 35 * DAY_MS - HOUR_MS;
/** Stripe remembers identifiers for a day. */
const ID_MEMORY_MS = DAY_MS;

const DONE: StepOutcome = { kind: 'done' };

/** The card payment provider Stripe: usage as meter events, charged by prices (docs/destinations/stripe.md). */
export function createStripe(
  name: string,
  settings: StripeSettings,
  context: DestinationContext,
): Destination {
  return new Stripe(name, settings, context);
}

class Stripe implements Destination {
  readonly name: string;
  readonly type = 'stripe';
  readonly limits: DestinationLimits;
  readonly closedPeriods =
    'Stripe adds it up in the meter, and it is on no invoice, also not on the next';
  readonly late: LateBiller;
  readonly #settings: StripeSettings;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #client: StripeClient;
  readonly #meters: StripeMeters;
  readonly #customers: StripeCustomers;
  readonly #losses: Losses;
  readonly #subscriptions: StripeSubscriptions;
  readonly #stream: MeterEventStream | undefined;
  readonly #sender: Pick<StripeSender, 'send'>;
  readonly #summaries: EventSummaries;
  readonly #errorReports: ErrorReports;
  readonly #invoices: StripeInvoices;
  readonly #priceWatch: StripePriceWatch;
  readonly #metricNames = new Map<string, string>();
  readonly #tenants = new Map<string, Tenant>();

  constructor(
    name: string,
    settings: StripeSettings,
    { outbound, clock, logger }: DestinationContext,
  ) {
    this.name = name;
    this.#settings = settings;
    this.#logger = logger;
    this.#clock = clock;
    const access = { name, outbound, clock, ...settings };
    const client = new StripeClient(access);
    const meters = new StripeMeters(client, logger);
    const customers = new StripeCustomers(client, clock, logger);
    const prices = new StripePrices(client, clock);
    this.#client = client;
    this.#meters = meters;
    this.#customers = customers;
    const isStreamed = settings.meterEventStream === true && isLive(settings.apiKey);
    this.#stream = isStreamed ? new MeterEventStream(access) : undefined;
    this.#errorReports = createErrorReports(name, client, clock, logger, (codes) => {
      if (isStreamed) this.#doubt(codes);
    });
    const sending = {
      name,
      settings,
      client,
      meters,
      customers,
      metricName: (code: string) => this.#metricNames.get(code) ?? code,
      logger,
    };
    const single = new StripeSender(sending);
    const [stream, reports] = [this.#stream, this.#errorReports];
    this.#sender =
      stream === undefined ? single : new StreamSender({ ...sending, stream, single, reports });
    this.#summaries = new EventSummaries({
      client,
      meters,
      customers,
      splitBy: settings.splitMetersBy,
      named: (tenant) => this.#tenants.get(tenant)?.customerIds?.['stripe'],
    });
    const losses = new Losses({ name, clock, logger });
    this.#losses = losses;
    this.#subscriptions = new StripeSubscriptions({
      name,
      settings,
      client,
      prices,
      uninvoiced: new UninvoicedUsage(client, this.#summaries, clock),
      losses,
      clock,
      logger,
    });
    this.#invoices = new StripeInvoices({
      client,
      meters,
      metrics: () => this.#metricNames.keys(),
      clock,
      drafts: (customer, problems) => losses.drafts(customer, problems),
    });
    const splitBy = settings.splitMetersBy;
    this.late = new StripeLate({ client, customers, meters, splitBy });
    this.#priceWatch = new StripePriceWatch({
      settings,
      clock,
      meters,
      prices,
      subscriptions: this.#subscriptions,
      summaries: this.#summaries,
    });
    this.limits = {
      negativeQuantities: true,
      batchEvents: batchEvents(this.eventsPerSecond()),
      maxAgeMs: MAX_AGE_MS,
      idMemoryMs: ID_MEMORY_MS,
    };
  }

  accepts({ informational }: MetricDefinition): boolean {
    return !informational;
  }

  async bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    const failed = await this.#meters.load(signal);
    if (failed !== undefined) return failedStep(failed);
    for (const { code, name: shown } of catalog) {
      this.#metricNames.set(code, shown);
      const ensured = await this.#meters.ensure(code, shown, signal);
      if (ensured.kind === 'retry' || ensured.kind === 'hold') return failedStep(ensured);
      // Only the events of this metric are concerned.
      const problem = ensured.kind === 'meter' ? ensured.meter.problem : ensured.reason;
      if (problem === undefined) continue;
      this.#logger.warn(`[bootstrap] warning: metric "${code}": ${problem}`);
    }
    return DONE;
  }

  async provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome> {
    this.#tenants.set(tenant.id, tenant);
    const customer = await this.#customers.ensure(tenant, signal);
    if (customer.kind !== 'customer') return customer;
    if (!this.#settings.autoSubscribe) return DONE;
    return this.#subscriptions.subscribe(tenant, customer.id, signal);
  }

  async change(tenant: Tenant, _before: number, signal: AbortSignal): Promise<ChangeOutcome> {
    const customer = await this.#customers.ensure(tenant, signal);
    if (customer.kind !== 'customer') return customer;
    return this.#subscriptions.change(tenant, customer.id, signal);
  }

  /** Only a change of plan waits for it: prices that are added, and a first subscription, do not. */
  async periodEnd({ id }: Tenant, now: number): Promise<PeriodEndOutcome> {
    const at = this.#subscriptions.outgoingPeriodOf(id)?.end ?? now;
    return { kind: 'period-end', at };
  }

  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const failures = await this.#keepUp(events, signal);
    const ready = events.filter(({ tenant }) => !failures.has(tenant));
    const outcomes = await this.#sender.send(ready, signal);
    const byEvent = new Map(ready.map((event, index) => [event, outcomes[index]]));
    const delivered = ready.filter((event) => byEvent.get(event)?.kind === 'delivered');
    await this.#priceWatch.look(delivered, signal);
    await this.#errorReports.look(signal);
    return events.map(
      (event) =>
        byEvent.get(event) ?? failures.get(event.tenant) ?? { kind: 'retry', reason: 'not sent' },
    );
  }

  async offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    this.#tenants.delete(tenant.id);
    if (!this.#settings.cancelOnRemove) return DONE;
    const customer = await this.#customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
    if (customer.kind === 'none') return DONE;
    if (customer.kind !== 'customer') return customer;
    return this.#subscriptions.cancel(tenant.id, customer.id, signal);
  }

  verify(
    events: readonly UsageEvent[],
    signal: AbortSignal,
    sameBucket?: readonly BucketEvent[],
  ): Promise<VerifyOutcome> {
    return this.#summaries.verify(events, signal, sameBucket);
  }

  totals(query: TotalsQuery, signal: AbortSignal): Promise<TotalsOutcome> {
    return this.#summaries.total(query, signal);
  }

  async invoices({ tenant, since }: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome> {
    const customer = await this.#customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
    if (customer.kind === 'none') {
      return { kind: 'unsupported', reason: 'Stripe has no customer of this tenant' };
    }
    if (customer.kind !== 'customer') return { kind: 'retry', reason: customer.reason };
    return this.#invoices.list(customer.id, since, signal);
  }

  async tenantsOf(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer> {
    if (system !== this.type) return { kind: 'unknown' };
    return tenantsOfStripeCustomer(this.#client, customer, signal);
  }

  standing(asked: readonly string[], signal: AbortSignal): Promise<StandingOutcome> {
    return standingAtStripe(this.#client, asked, this.#clock.now(), signal);
  }

  lateRefusals(): readonly LateRefusal[] {
    const told = [...this.#errorReports.current(), ...this.#losses.all()];
    return told.toSorted((a, b) => b.at - a.at);
  }

  unpriced(): readonly UnpricedUsage[] {
    return this.#priceWatch.unpriced();
  }

  comparePrices(query: PricesQuery, signal: AbortSignal): Promise<PricesOutcome> {
    const meters = new StripeMeters(this.#client, this.#logger);
    const asked = { client: this.#client, settings: this.#settings, meters };
    return pricesAtStripe(asked, query, signal);
  }

  eventsPerSecond(): number {
    return this.#stream?.eventsPerSecond ?? this.#client.eventsPerSecond;
  }

  async close(): Promise<void> {
    await this.#stream?.close();
    await this.#client.close();
  }

  /** The stream takes what it cannot bill: only reports tell that something over there is gone. */
  #doubt(codes: readonly string[]): void {
    if (codes.some((code) => NO_METER.has(code))) this.#meters.doubt();
    if (codes.some((code) => NO_CUSTOMER.has(code))) this.#customers.doubtAll();
  }

  /** Brings the subscriptions of tenants up to date before their usage comes; what went wrong, by tenant. */
  async #keepUp(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, DeliveryOutcome>> {
    const among = new Set(events.map(({ tenant }) => tenant));
    const failures = await this.#subscriptions.keepUp(among, signal);
    return new Map(
      [...failures].map(([tenant, failure]): [string, DeliveryOutcome] => {
        const { kind, reason } = failure;
        return [tenant, kind === 'rejected' ? { kind: 'provision', reason } : failure];
      }),
    );
  }
}
