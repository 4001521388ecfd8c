import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { UnpricedUsage } from '../destination.ts';
import type { ApiFailure, ApiRefusal } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import { meterName } from './meters.ts';
import type { StripeClient } from './stripe-client.ts';

/** How often prices are read again: what is priced meanwhile is subscribed to then. */
const REFRESH_MS = 300_000;
/** After a reading that failed. */
const RETRY_MS = 60_000;
/** The tag of prices that belong to a plan (spec 1.4). */
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
export interface StripePrices {
  /** Reads them when that was long ago. */
  refresh(signal: AbortSignal): Promise<ApiRefusal | ApiFailure | undefined>;
  /** Those read last; undefined when they were never read. */
  current(): readonly StripePrice[] | undefined;
}

export function createStripePrices(client: StripeClient, clock: Clock): StripePrices {
  let prices: readonly StripePrice[] | undefined;
  let failure: ApiRefusal | ApiFailure | undefined;
  let nextReading = Number.NEGATIVE_INFINITY;
  let underWay: Promise<ApiRefusal | ApiFailure | undefined> | undefined;

  const read = async (signal: AbortSignal): Promise<ApiRefusal | ApiFailure | undefined> => {
    const filter = { active: true, type: 'recurring', recurring: { usage_type: 'metered' } };
    const list = await client.list('/v1/prices', filter, signal);
    if (list.kind !== 'list') {
      failure = list;
      nextReading = clock.monotonic() + RETRY_MS;
      return list;
    }
    failure = undefined;
    nextReading = clock.monotonic() + REFRESH_MS;
    prices = list.items.flatMap((object) => readPrice(object) ?? []);
    return undefined;
  };

  return {
    refresh: async (signal) => {
      if (clock.monotonic() < nextReading) return prices === undefined ? failure : undefined;
      underWay ??= read(signal).finally(() => {
        underWay = undefined;
      });
      return underWay;
    },
    current: () => prices,
  };
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

/** What is remembered of what was seen; beyond it new kinds of usage are not looked at. */
const MAX_SEEN = 2_000;

/** Which kinds of usage have come, and which of them no price charges (design 7). */
export interface UnpricedWatch {
  see(plan: string, events: readonly UsageEvent[]): void;
  /** `isPriced` says whether a price charges a meter in a plan; undefined when that is not known. */
  unpriced(
    isPriced: (plan: string, meter: string) => boolean | undefined,
  ): readonly UnpricedUsage[];
}

interface Seen {
  readonly usage: UnpricedUsage;
  readonly meter: string;
}

export function createUnpricedWatch(splitBy: readonly string[]): UnpricedWatch {
  const seen = new Map<string, Seen>();
  return {
    see: (plan, events) => {
      for (const event of events) {
        const meter = meterName(event, splitBy);
        const key = `${plan}\0${meter}`;
        if (seen.has(key) || seen.size >= MAX_SEEN) continue;
        const { metric, sku } = event;
        const named = sku !== undefined && meter !== metric;
        seen.set(key, { meter, usage: { plan, metric, ...(named && { sku }) } });
      }
    },
    unpriced: (isPriced) =>
      [...seen.values()]
        .filter(({ usage, meter }) => isPriced(usage.plan, meter) === false)
        .map(({ usage }) => usage),
  };
}
