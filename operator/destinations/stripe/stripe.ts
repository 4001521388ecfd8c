import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  Alerts,
  BucketEvent,
  DeliveryOutcome,
  Destination,
  DestinationContext,
  DestinationLimits,
  StepOutcome,
  VerifyOutcome,
} from '../destination.ts';
import { failedStep } from '../json-api/answer.ts';
import type { Prices } from '../prices.ts';
import { StripeCustomers, tenantsOfStripeCustomer } from './customers.ts';
import { ErrorReports } from './error-reports.ts';
import { EventSummaries } from './event-summaries.ts';
import { StripeInvoices } from './invoices.ts';
import { StripeLate } from './late.ts';
import { Losses } from './losses.ts';
import { MeterEventStream } from './meter-event-stream.ts';
import { StripeMeters } from './meters.ts';
import { StripePriceWatch } from './price-watch.ts';
import { StripePrices } from './prices.ts';
import { batchEvents, NO_CUSTOMER, NO_METER, StripeSender } from './send-events.ts';
import type { StripeSettings } from './settings.ts';
import { statusAtStripe } from './current-alerts.ts';
import { StreamSender } from './stream-events.ts';
import { isLive, StripeClient } from './stripe-client.ts';
import { StripeSubscriptions } from './subscriptions.ts';
import { pricesAtStripe } from './tagged-prices.ts';
import { StripeTenants } from './tenants.ts';
import { UninvoicedUsage } from './uninvoiced.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Stripe takes events of the last 35 days; an hour remains for sending. */
const MAX_AGE_MS = 35 * DAY_MS - HOUR_MS;
/** Stripe remembers identifiers for a day. */
const ID_MEMORY_MS = DAY_MS;

const DONE: StepOutcome = { kind: 'done' };

/** Usage as meter events, charged by Stripe's prices (docs/how-to/destinations/stripe.md). */
export class Stripe implements Destination {
  readonly name: string;
  readonly type = 'stripe';
  readonly limits: DestinationLimits;
  readonly customers: StripeTenants;
  readonly plans: StripeTenants;
  readonly sums: EventSummaries;
  readonly invoices: StripeInvoices;
  readonly late: StripeLate;
  readonly prices: Prices;
  readonly alerts: Required<Omit<Alerts, 'publicKey'>>;
  readonly #logger: Logger;
  readonly #client: StripeClient;
  readonly #meters: StripeMeters;
  readonly #customers: StripeCustomers;
  readonly #subscriptions: StripeSubscriptions;
  readonly #stream: MeterEventStream | undefined;
  readonly #sender: Pick<StripeSender, 'send'>;
  readonly #errorReports: ErrorReports;
  readonly #priceWatch: StripePriceWatch;
  readonly #metricNames = new Map<string, string>();

  constructor(name: string, settings: StripeSettings, context: DestinationContext) {
    const { outbound, clock, logger } = context;
    const { splitMetersBy: splitBy } = settings;
    const access = { name, outbound, clock, ...settings };
    const client = new StripeClient(access);
    const meters = new StripeMeters(client, logger);
    const customers = new StripeCustomers(client, clock, logger);
    const prices = new StripePrices(client, clock);
    const isStreamed = settings.meterEventStream === true && isLive(settings.apiKey);
    const stream = isStreamed ? new MeterEventStream(access) : undefined;
    const reports = new ErrorReports(name, client, clock, logger, (codes) => {
      if (isStreamed) this.#doubt(codes);
    });
    const metricName = (code: string) => this.#metricNames.get(code) ?? code;
    const sending = { name, settings, client, meters, customers, metricName, logger };
    const single = new StripeSender(sending);
    const named = (tenant: string) => this.customers.find(tenant)?.customerIds?.['stripe'];
    const summaries = new EventSummaries(client, meters, customers, splitBy, named);
    const losses = new Losses(name, clock, logger);
    const uninvoiced = new UninvoicedUsage(client, summaries, clock);
    const shared = { name, settings, client, prices, uninvoiced, losses, clock, logger };
    const subscriptions = new StripeSubscriptions(shared);
    const perSecond = stream?.eventsPerSecond ?? client.eventsPerSecond;

    this.name = name;
    this.limits = {
      negativeQuantities: true,
      batchEvents: batchEvents(perSecond),
      maxAgeMs: MAX_AGE_MS,
      idMemoryMs: ID_MEMORY_MS,
      eventsPerSecond: perSecond,
    };
    this.#logger = logger;
    this.#client = client;
    this.#meters = meters;
    this.#customers = customers;
    this.#subscriptions = subscriptions;
    this.#stream = stream;
    this.#errorReports = reports;
    this.#sender =
      stream === undefined ? single : new StreamSender({ ...sending, stream, single, reports });
    const watched = { settings, clock, meters, prices, subscriptions, summaries };
    this.#priceWatch = new StripePriceWatch(watched);
    this.customers = new StripeTenants(settings, customers, subscriptions);
    this.plans = this.customers;
    this.sums = summaries;
    this.invoices = new StripeInvoices({
      client,
      meters,
      customers,
      metrics: () => this.#metricNames.keys(),
      clock,
      drafts: (customer, problems) => losses.drafts(customer, problems),
    });
    this.late = new StripeLate(client, customers, meters, splitBy);
    this.prices = {
      compare: (query, signal) =>
        pricesAtStripe(
          { client, settings, meters: new StripeMeters(client, logger) },
          query,
          signal,
        ),
      unpriced: () => this.#priceWatch.unpriced(),
    };
    this.alerts = {
      current: (requested, signal) => statusAtStripe(client, requested, clock.now(), signal),
      tenantsOf: async (system, customer, signal) =>
        system === 'stripe'
          ? tenantsOfStripeCustomer(client, customer, signal)
          : { kind: 'unknown' },
      lateRefusals: () => [...reports.current(), ...losses.all()].toSorted((a, b) => b.at - a.at),
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
      if (ensured.kind === 'retry' || ensured.kind === 'blocked') return failedStep(ensured);
      // A failure concerns only the events of this metric.
      const problem = ensured.kind === 'meter' ? ensured.meter.problem : ensured.reason;
      if (problem === undefined) continue;
      this.#logger.warn(`[bootstrap] warning: metric "${code}": ${problem}`);
    }
    return DONE;
  }

  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const failures = await this.#checkDue(events, signal);
    const ready = events.filter(({ tenant }) => !failures.has(tenant));
    const outcomes = await this.#sender.send(ready, signal);
    const byEvent = new Map(ready.map((event, index) => [event, outcomes[index]]));
    const delivered = ready.filter((event) => byEvent.get(event)?.kind === 'delivered');
    await this.#priceWatch.poll(delivered, signal);
    await this.#errorReports.poll(signal);
    return events.map(
      (event) =>
        byEvent.get(event) ?? failures.get(event.tenant) ?? { kind: 'retry', reason: 'not sent' },
    );
  }

  verify(
    events: readonly UsageEvent[],
    signal: AbortSignal,
    sameBucket?: readonly BucketEvent[],
  ): Promise<VerifyOutcome> {
    return this.sums.verify(events, signal, sameBucket);
  }

  async close(): Promise<void> {
    await this.#stream?.close();
    await this.#client.close();
  }

  /**
   * Makes objects uncertain that a report names as missing. The stream accepts events that it
   * cannot bill, so only reports show this.
   */
  #doubt(codes: readonly string[]): void {
    if (codes.some((code) => NO_METER.has(code))) this.#meters.doubt();
    if (codes.some((code) => NO_CUSTOMER.has(code))) this.#customers.doubtAll();
  }

  /** Updates tenants' subscriptions before their usage arrives. Returns failures by tenant. */
  async #checkDue(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, DeliveryOutcome>> {
    const among = new Set(events.map(({ tenant }) => tenant));
    const failures = await this.#subscriptions.checkDue(among, signal);
    return new Map(
      [...failures].map(([tenant, failure]): [string, DeliveryOutcome] => {
        const { kind, reason } = failure;
        return [tenant, kind === 'rejected' ? { kind: 'provision', reason } : failure];
      }),
    );
  }
}
