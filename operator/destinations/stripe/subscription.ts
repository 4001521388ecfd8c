import { isObject, type JsonObject, objectsOf, textOf } from '../json.ts';
import { readPrice, type StripePrice } from './prices.ts';

/** Whose subscription it is; the plan is under the same key as at prices. */
export const SUBSCRIBER_KEY = 'vbilling_tenant_id';
/** Set while its cancellation is meterfeed's own, which alone is taken back. */
export const OFFBOARDED_KEY = 'vbilling_offboarded';

const ENDED = new Set(['canceled', 'incomplete_expired']);

/** A subscription as Stripe has it, as far as it charges meters. */
export interface StripeSubscription {
  readonly id: string;
  /** The tenant it was made for; undefined when somebody else made it. */
  readonly tenant: string | undefined;
  readonly plan: string | undefined;
  readonly live: boolean;
  /** Seconds since the epoch; undefined while it lives. */
  readonly endedAt: number | undefined;
  readonly cancelAtPeriodEnd: boolean;
  readonly offboarded: boolean;
  /** Items that charge no meter are left out, but counted. */
  readonly items: readonly StripeItem[];
  readonly itemCount: number;
}

export interface StripeItem {
  readonly id: string;
  readonly price: StripePrice;
}

export function readSubscription(object: JsonObject): StripeSubscription {
  const metadata = isObject(object['metadata']) ? object['metadata'] : {};
  const list = isObject(object['items']) ? objectsOf(object['items'], 'data') : [];
  const items = list.flatMap((item): StripeItem[] => {
    const price = isObject(item['price']) ? readPrice(item['price']) : undefined;
    return price === undefined ? [] : [{ id: textOf(item, 'id') ?? '', price }];
  });
  const endedAt = Number(object['ended_at'] ?? object['canceled_at'] ?? 0);
  const live = !ENDED.has(textOf(object, 'status') ?? '');
  return {
    id: textOf(object, 'id') ?? '',
    tenant: textOf(metadata, SUBSCRIBER_KEY),
    plan: textOf(metadata, 'vbilling_plan'),
    live,
    endedAt: live || endedAt === 0 ? undefined : endedAt,
    cancelAtPeriodEnd: object['cancel_at_period_end'] === true,
    offboarded: textOf(metadata, OFFBOARDED_KEY) !== undefined,
    items,
    itemCount: list.length,
  };
}
