import type { Clock } from '../../telemetry/clock.ts';
import { isObject, type JsonObject, textOf } from '../json.ts';
import type { StripeClient, StripeRefusal, StripeTrouble } from './stripe-client.ts';

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
  refresh(signal: AbortSignal): Promise<StripeRefusal | StripeTrouble | undefined>;
  /** Those read last; undefined when they were never read. */
  current(): readonly StripePrice[] | undefined;
}

export function createStripePrices(client: StripeClient, clock: Clock): StripePrices {
  let prices: readonly StripePrice[] | undefined;
  let failure: StripeRefusal | StripeTrouble | undefined;
  let nextReading = Number.NEGATIVE_INFINITY;
  let underWay: Promise<StripeRefusal | StripeTrouble | undefined> | undefined;

  const read = async (signal: AbortSignal): Promise<StripeRefusal | StripeTrouble | undefined> => {
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
  const recurring = isObject(object['recurring']) ? object['recurring'] : {};
  const metadata = isObject(object['metadata']) ? object['metadata'] : {};
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
