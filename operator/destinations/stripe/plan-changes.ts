import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { TENANT_KEY } from './customers.ts';
import { PLAN_KEY, readPrice, type StripePrice } from './prices.ts';

/** Stripe's own bound. */
export const MAX_ITEMS = 20;

/** What is to be done, in this order, so that a tenant is charged for every meter once. */
export type SubscriptionChange =
  | { readonly kind: 'cancel'; readonly subscription: string }
  | {
      readonly kind: 'update';
      readonly subscription: string;
      readonly items: readonly ItemChange[];
      /** Take back the cancellation that an offboarding left. */
      readonly resume: boolean;
    }
  | {
      readonly kind: 'create';
      /** At most 20, of one currency and interval. */
      readonly prices: readonly string[];
      /** Usage from then on is charged, seconds since the epoch; undefined: from now on. */
      readonly from: number | undefined;
    };

/** An item that is removed, gets another price, or is added. */
export type ItemChange =
  | { readonly id: string; readonly deleted: true }
  | { readonly id: string; readonly price: string }
  | { readonly price: string };

export interface PlanQuestion {
  readonly tenant: string;
  readonly plan: string;
  /** Active prices of the plan in the tenant's currency. */
  readonly prices: readonly StripePrice[];
  /** All of the customer's, whoever made them, ended ones too. */
  readonly subscriptions: readonly StripeSubscription[];
  /** The earliest usage that may have to be charged, seconds since the epoch. */
  readonly billableFrom: number;
  /** Whether the tenant has tenant clusters, so that an offboarding is to be undone. */
  readonly present: boolean;
}

/**
 * The changes that leave exactly one charge for each meter that the plan prices
 * (docs/destinations/stripe.md#subscriptions). A meter
 * that another subscription of the customer charges is left to that one; items that an operator added
 * by hand stay. Charges that end come before those that begin.
 */
export function planChanges(question: PlanQuestion): readonly SubscriptionChange[] {
  const live = question.subscriptions.filter((subscription) => subscription.live);
  const own = live.filter(({ tenant }) => tenant === question.tenant);
  const wanted = wantedPrices(question, live, own);
  const open = new Map(wanted);
  const edits = own.map((subscription) => keepItems(subscription, open));
  // Only when all that may stay is known can the rest be told.
  for (const edit of edits) changeItems(edit, question.plan, wanted, open);
  for (const edit of edits) addItems(edit, open);
  const changes = edits.flatMap((item) => changeOf(item, question));
  return [...changes.toSorted(endingFirst), ...creations(question, own, [...open.values()])];
}

/**
 * One price for each meter that nobody else's charge is on: the one that is charged already, else the
 * newest.
 */
function wantedPrices(
  { prices }: PlanQuestion,
  live: readonly StripeSubscription[],
  own: readonly StripeSubscription[],
): Map<string, StripePrice> {
  const items = own.flatMap((subscription) => subscription.items);
  const others = live.filter((subscription) => !own.includes(subscription));
  const byHand = items.filter(({ price }) => price.plan === undefined);
  const taken = new Set(
    [...others.flatMap((subscription) => subscription.items), ...byHand].map(
      ({ price }) => price.meter,
    ),
  );
  const charged = new Set(items.map(({ price }) => price.id));
  const wanted = new Map<string, StripePrice>();
  for (const price of prices) {
    if (taken.has(price.meter)) continue;
    const other = wanted.get(price.meter);
    if (other === undefined || rank(price, charged) > rank(other, charged)) {
      wanted.set(price.meter, price);
    }
  }
  return wanted;
}

function rank({ id, created }: StripePrice, charged: ReadonlySet<string>): number {
  return created + (charged.has(id) ? Number.MAX_SAFE_INTEGER / 2 : 0);
}

interface Edit {
  readonly subscription: StripeSubscription;
  readonly items: ItemChange[];
  /** Items whose fate is open. */
  readonly rest: StripeItem[];
  readonly removed: Set<string>;
}

/** Keeps what is as wanted; `open` loses the meters that are charged by it. */
function keepItems(subscription: StripeSubscription, open: Map<string, StripePrice>): Edit {
  const rest = subscription.items.filter(({ price }) => {
    if (open.get(price.meter)?.id !== price.id) return true;
    open.delete(price.meter);
    return false;
  });
  return { subscription, items: [], rest, removed: new Set() };
}

/** Replaces prices in place, and removes what the plan does not have. */
function changeItems(
  { items, rest, removed }: Edit,
  plan: string,
  wanted: ReadonlyMap<string, StripePrice>,
  open: Map<string, StripePrice>,
): void {
  for (const { id, price } of rest) {
    if (price.plan === undefined) continue;
    const next = open.get(price.meter);
    if (next !== undefined && fitsTogether(price, next)) {
      items.push({ id, price: next.id });
      open.delete(price.meter);
      continue;
    }
    // A price that was archived goes on for those who have it.
    if (price.plan === plan && !wanted.has(price.meter)) continue;
    items.push({ id, deleted: true });
    removed.add(id);
  }
}

/** Adds what there is room for. */
function addItems({ subscription, items, removed }: Edit, open: Map<string, StripePrice>): void {
  const [sample] = subscription.items;
  if (sample === undefined) return;
  for (const price of open.values()) {
    const count = subscription.itemCount - removed.size + items.filter(isAddition).length;
    if (count >= MAX_ITEMS || !fitsTogether(sample.price, price)) continue;
    items.push({ price: price.id });
    open.delete(price.meter);
  }
}

/** Whether one subscription may have both. */
function fitsTogether(a: StripePrice, b: StripePrice): boolean {
  return a.currency === b.currency && a.interval === b.interval;
}

function changeOf(
  { subscription, items, removed }: Edit,
  question: PlanQuestion,
): readonly SubscriptionChange[] {
  const { id, itemCount } = subscription;
  const resume = question.present && subscription.cancelAtPeriodEnd && subscription.offboarded;
  const left = itemCount - removed.size + items.filter(isAddition).length;
  if (left === 0) return [{ kind: 'cancel', subscription: id }];
  if (items.length === 0 && !resume && subscription.plan === question.plan) return [];
  return [{ kind: 'update', subscription: id, items, resume }];
}

function isAddition(change: ItemChange): boolean {
  return !('id' in change);
}

function endingFirst(a: SubscriptionChange, b: SubscriptionChange): number {
  return weight(a) - weight(b);
}

function weight(change: SubscriptionChange): number {
  if (change.kind === 'cancel') return 0;
  return change.kind === 'update' && change.items.some((item) => 'deleted' in item) ? 1 : 2;
}

/**
 * New subscriptions of at most 20 prices. The first ones reach back to the first usage; those that
 * follow ended ones begin where these ended; and what is added beside living ones begins now, since
 * nobody can tell what was charged before.
 */
function creations(
  { subscriptions, tenant, billableFrom }: PlanQuestion,
  own: readonly StripeSubscription[],
  prices: readonly StripePrice[],
): readonly SubscriptionChange[] {
  const ended = subscriptions
    .filter((subscription) => !subscription.live && subscription.tenant === tenant)
    .map(({ endedAt }) => endedAt ?? 0);
  const from = own.length > 0 ? undefined : Math.max(billableFrom, ...ended);
  const groups = Map.groupBy(prices, ({ currency, interval }) => `${currency} ${interval}`);
  return [...groups.values()].flatMap((group) => {
    const sorted = group.map(({ id }) => id).toSorted();
    const count = Math.ceil(sorted.length / MAX_ITEMS);
    return Array.from({ length: count }, (_, index) => ({
      kind: 'create' as const,
      prices: sorted.slice(index * MAX_ITEMS, (index + 1) * MAX_ITEMS),
      from,
    }));
  });
}

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
  const metadata = objectOf(object, 'metadata');
  const list = objectsOf(objectOf(object, 'items'), 'data');
  const items = list.flatMap((item): StripeItem[] => {
    const price = readPrice(objectOf(item, 'price'));
    return price === undefined ? [] : [{ id: textOf(item, 'id') ?? '', price }];
  });
  const endedAt = Number(object['ended_at'] ?? object['canceled_at'] ?? 0);
  const live = !ENDED.has(textOf(object, 'status') ?? '');
  return {
    id: textOf(object, 'id') ?? '',
    tenant: textOf(metadata, TENANT_KEY),
    plan: textOf(metadata, PLAN_KEY),
    live,
    endedAt: live || endedAt === 0 ? undefined : endedAt,
    cancelAtPeriodEnd: object['cancel_at_period_end'] === true,
    offboarded: textOf(metadata, OFFBOARDED_KEY) !== undefined,
    items,
    itemCount: list.length,
  };
}
