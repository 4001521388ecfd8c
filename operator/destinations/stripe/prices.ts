import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { UnpricedUsage } from '../destination.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import { meterName } from './meters.ts';
import type { StripeClient } from './stripe-client.ts';

/** How often prices are read again: what is priced meanwhile is subscribed to then. */
const REFRESH_MS = 300_000;
/** After a reading that failed. */
const RETRY_MS = 60_000;
/** What is remembered of what was seen; beyond it new kinds of usage are not looked at. */
const MAX_SEEN = 2_000;
/** The tag of prices that belong to a plan. */
export const PLAN_KEY = 'vbilling_plan';

/** A recurring price that charges what a meter counts. */
export interface StripePrice {
  readonly id: string;
  /** Id of its meter. */
  readonly meter: string;
  /** Upper case, as in ISO 4217. */
  readonly currency: string;
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

  /** Those read last; undefined when they were never read. */
  current(): readonly StripePrice[] | undefined {
    return this.#prices;
  }

  /** Reads them when that was long ago. */
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
    const filter = { active: true, type: 'recurring', recurring: { usage_type: 'metered' } };
    const list = await this.#client.list('/v1/prices', filter, signal);
    const hasFailed = list.kind !== 'list';
    this.#nextReading = this.#clock.monotonic() + (hasFailed ? RETRY_MS : REFRESH_MS);
    this.#failure = hasFailed ? list : undefined;
    if (!hasFailed) this.#prices = list.items.flatMap((object) => readPrice(object) ?? []);
    return this.#failure;
  }
}

/** Undefined when it charges no meter. */
export function readPrice(object: JsonObject): StripePrice | undefined {
  const recurring = objectOf(object, 'recurring');
  const metadata = objectOf(object, 'metadata');
  const meter = textOf(recurring, 'meter');
  const id = textOf(object, 'id');
  if (meter === undefined || id === undefined) return undefined;
  const every = Number(recurring['interval_count'] ?? 1);
  const interval = textOf(recurring, 'interval') ?? '';
  return {
    id,
    meter,
    currency: (textOf(object, 'currency') ?? '').toUpperCase(),
    interval: every === 1 ? interval : `${every} ${interval}`,
    created: Number(object['created'] ?? 0),
    plan: textOf(metadata, PLAN_KEY),
  };
}

interface SeenKind {
  readonly usage: UnpricedUsage;
  readonly meter: string;
}

/**
 * Which kinds of usage have come, and which of them no price charges
 * (docs/destinations/stripe.md#prices-by-sku-and-capacity-type).
 */
export class UnpricedWatch {
  readonly #splitBy: readonly string[];
  readonly #seen = new Map<string, SeenKind>();

  constructor(splitBy: readonly string[]) {
    this.#splitBy = splitBy;
  }

  see(plan: string, events: readonly UsageEvent[]): void {
    for (const event of events) {
      const meter = meterName(event, this.#splitBy);
      const key = `${plan}\0${meter}`;
      if (this.#seen.has(key) || this.#seen.size >= MAX_SEEN) continue;
      const { metric, sku } = event;
      const named = sku !== undefined && meter !== metric;
      this.#seen.set(key, { meter, usage: { plan, metric, ...(named && { sku }) } });
    }
  }

  /** `isPriced` says whether a price charges a meter in a plan; undefined when that is not known. */
  unpriced(
    isPriced: (plan: string, meter: string) => boolean | undefined,
  ): readonly UnpricedUsage[] {
    return [...this.#seen.values()]
      .filter(({ usage, meter }) => isPriced(usage.plan, meter) === false)
      .map(({ usage }) => usage);
  }
}
