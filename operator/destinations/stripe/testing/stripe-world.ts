import { randomUUID } from 'node:crypto';
import {
  type FakeStripe,
  type FakeStripeOptions,
  startFakeStripe,
} from '../../../../e2e/fakes/stripe/stripe.ts';
import { Secret } from '../../../model/secret.ts';
import type { StripeSettings } from '../settings.ts';
import { BUILT_IN_METRICS } from '../../../model/catalog.ts';
import { parseDecimal } from '../../../model/decimal.ts';
import { SCHEMA_VERSION, type UsageEvent } from '../../../model/event.ts';
import type { ProvisionOutcome } from '../../destination.ts';
import type { Tenant } from '../../../model/tenant.ts';
import { createTestContext, type TestContext, testTenant } from '../../testing/context.ts';
import { Stripe } from '../stripe.ts';

/** The first time of the stand-in's clock: shortly after the window of test events. */
export const STRIPE_NOW = Date.UTC(2026, 10, 21, 9, 5, 0);
export const WINDOW_START = '2026-11-21T09:00:00Z';

/**
 * The metrics that go to Stripe: all but the informational ones (docs/reference/events.md#metrics).
 */
export const STRIPE_METRICS = BUILT_IN_METRICS.filter(({ informational }) => !informational);

export const { signal: NEVER } = new AbortController();

export interface StripeWorld {
  readonly stripe: FakeStripe;
  readonly destination: Stripe;
  readonly context: TestContext;
  /** The time of both sides. */
  readonly time: { now: number };
  /** Starts another operator process on the same Stripe. */
  readonly restart: (settings?: Partial<StripeSettings>) => Stripe;
  /** Bootstraps and provisions. */
  readonly ready: (...tenants: Tenant[]) => Promise<void>;
  /** Makes a tagged price for a meter, like a person does. */
  readonly price: (meterName: string, change?: PriceChange) => Promise<string>;
  /** Returns the bodies of POST requests to a path, oldest first. */
  readonly posted: (path: string) => readonly URLSearchParams[];
  readonly count: (method: string, path: string) => number;
  readonly close: () => Promise<void>;
}

export interface PriceChange {
  readonly plan?: string;
  readonly currency?: string;
  readonly interval?: string;
  /** In cents. */
  readonly amount?: string;
  /** Further currencies that it has an amount in. */
  readonly options?: readonly string[];
}

export async function createStripeWorld(
  options: Partial<FakeStripeOptions> = {},
  settings: Partial<StripeSettings> = {},
): Promise<StripeWorld> {
  const time = { now: STRIPE_NOW };
  const { apiKey = 'sk_test_key' } = options;
  const stripe = await startFakeStripe({ now: () => time.now, ...options, apiKey });
  const context = createTestContext({
    now: () => time.now,
    monotonic: () => time.now,
    // Pacing takes no time here.
    sleep: async () => undefined,
  });
  const made: Stripe[] = [];
  const create = (change: Partial<StripeSettings> = {}): Stripe => {
    const full: StripeSettings = {
      url: stripe.url,
      apiKey: new Secret(apiKey),
      apiVersion: '2026-09-30.endive',
      splitMetersBy: ['sku'],
      autoSubscribe: false,
      cancelOnRemove: false,
      maxRequestsPerSecond: 0,
      planCode: 'tenant-standard',
      currency: 'USD',
      billingDay: 1,
      ...settings,
      ...change,
    };
    const destination = new Stripe('stripe', full, context);
    made.push(destination);
    return destination;
  };
  const destination = create();

  return {
    stripe,
    destination,
    context,
    time,
    restart: create,
    ready: async (...tenants) => {
      done(await destination.bootstrap(STRIPE_METRICS, NEVER));
      for (const tenant of tenants.length > 0 ? tenants : [testTenant()]) {
        await settle(destination, tenant);
      }
    },
    price: async (
      meterName,
      {
        plan = 'tenant-standard',
        currency = 'usd',
        interval = 'month',
        amount = '1',
        options = [],
      } = {},
    ) => {
      const meter = [...stripe.state.meters.values()].find(
        ({ event_name }) => event_name === meterName,
      );
      const form = new URLSearchParams({
        currency,
        'product_data[name]': meterName,
        unit_amount_decimal: amount,
        'recurring[interval]': interval,
        'recurring[usage_type]': 'metered',
        'recurring[meter]': meter?.id ?? `no meter ${meterName}`,
        ...(plan !== '' && { 'metadata[vbilling_plan]': plan }),
        ...Object.fromEntries(
          options.map((option) => [`currency_options[${option}][unit_amount_decimal]`, amount]),
        ),
      });
      const answer = await fetch(`${stripe.url}/v1/prices`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'idempotency-key': randomUUID() },
        body: form,
      });
      const body = (await answer.json()) as { readonly id?: string };
      if (body.id === undefined) throw new Error(JSON.stringify(body));
      return body.id;
    },
    posted: (path) =>
      stripe.requests
        .filter((request) => request.method === 'POST' && request.path === path)
        .map(({ body }) => new URLSearchParams(body)),
    count: (method, path) =>
      stripe.requests.filter(
        (request) => request.method === method && request.path.startsWith(path),
      ).length,
    close: async () => {
      await Promise.all(made.map((one) => one.close()));
      await stripe.close();
    },
  };
}

function done(outcome: ProvisionOutcome): void {
  if (outcome.kind !== 'done') throw new Error(`${outcome.kind}: ${outcome.reason}`);
}

let events = 0;

/**
 * Provisions like the delivery engine after all usage so far is delivered, and makes a waiting
 * change. Returns the moment of the change, if any.
 */
export async function settle(destination: Stripe, tenant: Tenant): Promise<number | undefined> {
  const outcome = await destination.customers.provision(tenant, NEVER);
  if (outcome.kind !== 'drain') {
    done(outcome);
    return undefined;
  }
  const changed = await destination.plans.change(tenant, outcome.before, NEVER);
  if (changed?.kind !== 'changed') throw new Error(changed?.reason ?? 'no change');
  return changed.from;
}

/** Returns an event of GPU hours; `quantity` as decimal text. */
export function gpuEvent(
  change: Partial<Omit<UsageEvent, 'quantity'>> & { readonly quantity?: string } = {},
): UsageEvent {
  events += 1;
  const { quantity = '0.5', ...rest } = change;
  const decimal = parseDecimal(quantity);
  if (decimal === undefined) throw new RangeError(`not a decimal: "${quantity}"`);
  return {
    schema_version: SCHEMA_VERSION,
    id: `svc1_${String(events).padStart(32, '0')}`,
    tenant: testTenant().id,
    metric: 'tenant_gpu_hours',
    unit: 'gpu-hours',
    window_start: WINDOW_START,
    window_end: '2026-11-21T09:01:00Z',
    recorded_at: '2026-11-21T09:01:03Z',
    sku: 'H100-80GB',
    ...rest,
    quantity: decimal,
  };
}
