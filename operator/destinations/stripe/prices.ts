import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeClient } from './stripe-client.ts';

/** How often prices are read again. Tenants are then subscribed to new ones. */
const REFRESH_MS = 300_000;
/** The wait after a failed read. */
const RETRY_MS = 60_000;
/** The metadata key of prices with their plan. */
export const PLAN_KEY = 'vbilling_plan';

/** A recurring price that charges a meter's usage. */
export interface StripePrice {
  readonly id: string;
  readonly meter: string;
  /** Upper case, as in ISO 4217. */
  readonly currency: string;
  /** Its currencies: its own, and those of its `currency_options`. */
  readonly currencies: readonly string[];
  /** `month`, `3 month`, … */
  readonly interval: string;
  /** Seconds since the epoch. */
  readonly created: number;
  /** The plan that it is tagged with. */
  readonly plan: string | undefined;
}

/** The active metered prices of the account. */
export class StripePrices {
  readonly #client: StripeClient;
  readonly #clock: Clock;
  #prices: readonly StripePrice[] | undefined;
  #failure: ApiProblem | undefined;
  #nextReading = Number.NEGATIVE_INFINITY;
  #underWay: Promise<ApiProblem | undefined> | undefined;

  constructor(client: StripeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Returns the prices of the last read; undefined before the first one. */
  current(): readonly StripePrice[] | undefined {
    return this.#prices;
  }

  /** Reads the prices again when the last read is old. */
  async refresh(signal: AbortSignal): Promise<ApiProblem | undefined> {
    if (this.#clock.monotonic() < this.#nextReading) {
      return this.#prices === undefined ? this.#failure : undefined;
    }
    this.#underWay ??= this.#read(signal).finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #read(signal: AbortSignal): Promise<ApiProblem | undefined> {
    const filter = {
      active: true,
      type: 'recurring',
      recurring: { usage_type: 'metered' },
      expand: ['data.currency_options'],
    };
    const list = await this.#client.list('/v1/prices', filter, signal);
    const hasFailed = list.kind !== 'list';
    this.#nextReading = this.#clock.monotonic() + (hasFailed ? RETRY_MS : REFRESH_MS);
    this.#failure = hasFailed ? list : undefined;
    if (!hasFailed) this.#prices = list.items.flatMap((object) => readPrice(object) ?? []);
    return this.#failure;
  }
}

/** Reads a price; undefined when it charges no meter. */
export function readPrice(object: JsonObject): StripePrice | undefined {
  const recurring = objectOf(object, 'recurring');
  const metadata = objectOf(object, 'metadata');
  const meter = textOf(recurring, 'meter');
  const id = textOf(object, 'id');
  if (meter === undefined || id === undefined) return undefined;
  const every = Number(recurring['interval_count'] ?? 1);
  const interval = textOf(recurring, 'interval') ?? '';
  const currency = (textOf(object, 'currency') ?? '').toUpperCase();
  const options = Object.keys(objectOf(object, 'currency_options'));
  return {
    id,
    meter,
    currency,
    currencies: [...new Set([currency, ...options.map((option) => option.toUpperCase())])],
    interval: every === 1 ? interval : `${every} ${interval}`,
    created: Number(object['created'] ?? 0),
    plan: textOf(metadata, PLAN_KEY),
  };
}

/**
 * Returns why a tenant cannot be subscribed: no price is tagged with its own plan, or prices are in
 * other currencies only. The default plan may be without prices until somebody sets them.
 */
export function priceProblem(
  tenant: Tenant,
  settings: Pick<StripeSettings, 'planCode' | 'currency'>,
  all: readonly StripePrice[],
): string | undefined {
  const plan = tenant.plan ?? settings.planCode;
  const currency = tenant.currency ?? settings.currency;
  const tagged = all.filter((price) => price.plan === plan);
  if (tagged.length === 0) {
    if (plan === settings.planCode) return undefined;
    return `no active metered price in Stripe has metadata[${PLAN_KEY}]: plan: ${quote(plan)}`;
  }
  if (tagged.some(({ currencies }) => currencies.includes(currency))) return undefined;
  const currencies = [...new Set(tagged.flatMap((price) => price.currencies))];
  return `plan ${quote(plan)} is priced in ${currencies.toSorted().join(', ')}: currency: ${quote(currency)}`;
}
