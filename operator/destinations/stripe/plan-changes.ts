import { quote } from '../../model/quote.ts';
import type { StripePrice } from './prices.ts';
import { collectionProblem, type StripeItem, type StripeSubscription } from './subscription.ts';

/** Stripe's own bound. */
export const MAX_ITEMS = 20;

/** The changes after which a tenant is charged once for every meter, in their order. */
export type SubscriptionChange =
  /** Ends a subscription at once, with an invoice of its usage. */
  | { readonly kind: 'end'; readonly subscription: string }
  /** Removes items; their usage goes on the next invoice. */
  | { readonly kind: 'remove'; readonly subscription: string; readonly items: readonly string[] }
  | { readonly kind: 'add'; readonly subscription: string; readonly prices: readonly string[] }
  /** Changes no charge. `resume` cancels the cancellation of an offboarding. */
  | { readonly kind: 'note'; readonly subscription: string; readonly resume: boolean }
  | CreateChange;

export interface CreateChange {
  readonly kind: 'create';
  /** At most 20, of one interval. */
  readonly prices: readonly string[];
  /** Charge usage from this time on, seconds since the epoch; undefined: from now on. */
  readonly from: number | undefined;
  /** The subscription that it continues or accompanies, with its billing day and payment terms. */
  readonly model: Pick<StripeSubscription, 'periodEnd' | 'payment'> | undefined;
}

export interface PlanQuestion {
  readonly tenant: string;
  readonly plan: string;
  /** Upper case, as in ISO 4217. */
  readonly currency: string;
  /** The plan's active prices in the currency. */
  readonly prices: readonly StripePrice[];
  /** All subscriptions of the customer, ended ones and those of other people included. */
  readonly subscriptions: readonly StripeSubscription[];
  /** Since when usage without a subscription may be on no invoice, seconds since 1970. */
  readonly from: number;
  /** The same for meters that no price charges, although the tenant has subscriptions; by meter. */
  readonly since: ReadonlyMap<string, number>;
  /** True if the tenant has tenant clusters, so that an offboarding must be undone. */
  readonly present: boolean;
}

export type PlanAnswer =
  | { readonly kind: 'changes'; readonly changes: readonly SubscriptionChange[] }
  /** Every possible change would leave usage on no invoice. */
  | { readonly kind: 'blocked'; readonly reason: string };

/**
 * Returns the changes that leave exactly one charge for each meter that the plan prices
 * (docs/how-to/destinations/stripe.md#subscriptions). It leaves these alone:
 *
 * 1. A meter that another subscription of the customer charges.
 * 2. The charges of a subscription that brings no money.
 * 3. Items that people added.
 *
 * A price never replaces another within an item: such an item has no grace at the end of its period
 * (https://docs.stripe.com/billing/subscriptions/usage-based/configure-grace-period).
 */
export function planChanges(question: PlanQuestion): PlanAnswer {
  const { wanted, own } = sides(question);
  const open = new Map(wanted);
  const edits = own.map((subscription) => sort(subscription, question, wanted, open));
  for (const { subscription, isEnded, items } of edits) {
    if (isEnded) reopen(items, wanted, open);
    else if (items.leaving.length > 0 && !subscription.billsRemovals) {
      return { kind: 'blocked', reason: mixedReason(question.tenant, subscription) };
    }
  }
  const changes = edits.flatMap((edit) => [...changesOf(edit, question, open)]);
  const created = creations(question, own, [...open.values()]);
  return { kind: 'changes', changes: [...changes.toSorted(endingFirst), ...created] };
}

/** Returns the wanted prices of meters that no price charges now. */
export function missingPrices(question: Omit<PlanQuestion, 'since'>): readonly StripePrice[] {
  const { wanted, own } = sides(question);
  const charged = new Set(own.flatMap(({ items }) => items.map(({ price }) => price.meter)));
  return [...wanted.values()].filter(({ meter }) => !charged.has(meter));
}

/** Returns a price for each meter that nobody else charges: the current one, else the newest. */
function sides({ tenant, prices, subscriptions }: Omit<PlanQuestion, 'since'>): {
  readonly wanted: ReadonlyMap<string, StripePrice>;
  /** The tenant's subscriptions that may change. */
  readonly own: readonly StripeSubscription[];
} {
  const live = subscriptions.filter((subscription) => subscription.live);
  const own = live.filter(
    (subscription) =>
      subscription.tenant === tenant && collectionProblem(subscription) === undefined,
  );
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
    if (other === undefined || rank(other, charged) < rank(price, charged)) {
      wanted.set(price.meter, price);
    }
  }
  return { wanted, own };
}

function rank({ id, created }: StripePrice, charged: ReadonlySet<string>): number {
  return created + (charged.has(id) ? Number.MAX_SAFE_INTEGER / 2 : 0);
}

interface SortedItems {
  /** Items with the wanted price. */
  readonly unchanged: readonly StripeItem[];
  readonly leaving: readonly StripeItem[];
}

interface Edit {
  readonly subscription: StripeSubscription;
  readonly items: SortedItems;
  /** True if nothing of it would stay, or only items that another subscription can have. */
  readonly isEnded: boolean;
}

/** Sorts the items of a subscription. It deletes the meters with a wanted price from `open`. */
function sort(
  subscription: StripeSubscription,
  { plan, currency }: PlanQuestion,
  wanted: ReadonlyMap<string, StripePrice>,
  open: Map<string, StripePrice>,
): Edit {
  const { items, itemCount } = subscription;
  const fits = subscription.currency === currency;
  const unchanged: StripeItem[] = [];
  const leaving: StripeItem[] = [];
  let others = itemCount - items.length;
  for (const item of items) {
    const { price } = item;
    // An archived price continues for its existing subscriptions.
    const goesOn = fits && price.plan === plan && !wanted.has(price.meter);
    if (fits && open.get(price.meter)?.id === price.id) {
      open.delete(price.meter);
      unchanged.push(item);
    } else if (price.plan === undefined || goesOn) others += 1;
    else leaving.push(item);
  }
  // If removals are billed, wanted items stay as they are: their tiers count the complete period.
  const goesOn = unchanged.length > 0 && subscription.billsRemovals;
  const isEnded = leaving.length > 0 && others === 0 && !goesOn;
  return { subscription, items: { unchanged, leaving }, isEnded };
}

/** Puts the wanted prices of an ended subscription back into `open`. */
function reopen(
  { unchanged }: SortedItems,
  wanted: ReadonlyMap<string, StripePrice>,
  open: Map<string, StripePrice>,
): void {
  for (const { price } of unchanged) {
    const same = wanted.get(price.meter);
    if (same !== undefined) open.set(price.meter, same);
  }
}

function mixedReason(tenant: string, { id }: StripeSubscription): string {
  return (
    `subscription ${id} of tenant ${quote(tenant)} is in billing mode classic and has items that must stay, ` +
    'so that usage of its other items would never be billed: migrate it to flexible, or cancel it with an invoice'
  );
}

/** Yields the changes of a subscription. It deletes the prices that fit into it from `open`. */
function* changesOf(
  { subscription, items, isEnded }: Edit,
  question: PlanQuestion,
  open: Map<string, StripePrice>,
): Generator<SubscriptionChange> {
  const { id } = subscription;
  if (isEnded) {
    yield { kind: 'end', subscription: id };
    return;
  }
  const leaving = items.leaving.map((item) => item.id);
  // Stripe might take an added price for a replacement in a removed item.
  const added = leaving.length > 0 ? [] : roomFor(subscription, question, open);
  if (leaving.length > 0) yield { kind: 'remove', subscription: id, items: leaving };
  if (added.length > 0) yield { kind: 'add', subscription: id, prices: added };
  const resume = question.present && subscription.cancelAtPeriodEnd && subscription.offboarded;
  if (resume || (subscription.plan !== question.plan && leaving.length + added.length === 0)) {
    yield { kind: 'note', subscription: id, resume };
  }
}

function roomFor(
  { items, itemCount, currency }: StripeSubscription,
  question: PlanQuestion,
  open: Map<string, StripePrice>,
): readonly string[] {
  const [sample] = items;
  const added: string[] = [];
  if (sample === undefined || currency !== question.currency) return added;
  for (const price of open.values()) {
    const isFull = itemCount + added.length >= MAX_ITEMS;
    if (isFull || sample.price.interval !== price.interval) continue;
    // An item charges only usage after its addition.
    if (question.since.has(price.meter)) continue;
    added.push(price.id);
    open.delete(price.meter);
  }
  return added;
}

function endingFirst(a: SubscriptionChange, b: SubscriptionChange): number {
  return ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind);
}

const ORDER: readonly SubscriptionChange['kind'][] = ['end', 'remove', 'note', 'add', 'create'];

/** Returns new subscriptions of at most 20 prices each. */
function creations(
  { subscriptions, tenant, from, since }: PlanQuestion,
  own: readonly StripeSubscription[],
  prices: readonly StripePrice[],
): readonly SubscriptionChange[] {
  const lives = subscriptions.some((one) => one.live && one.tenant === tenant);
  const model = (interval: string) =>
    [...own, ...endedOf(subscriptions, tenant)].find(({ items }) =>
      items.some(({ price }) => price.interval === interval),
    );
  const groups = Map.groupBy(prices, ({ meter, interval }) => {
    return JSON.stringify([interval, lives ? since.get(meter) : from]);
  });
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const sorted = group.map(({ id }) => id).toSorted();
    const count = Math.ceil(sorted.length / MAX_ITEMS);
    return Array.from({ length: count }, (_, index) => ({
      kind: 'create' as const,
      prices: sorted.slice(index * MAX_ITEMS, (index + 1) * MAX_ITEMS),
      from: lives ? since.get(first.meter) : from,
      model: model(first.interval),
    }));
  });
}

/** Returns the tenant's ended subscriptions, the last one to end first. */
export function endedOf(
  subscriptions: readonly StripeSubscription[],
  tenant: string,
): readonly StripeSubscription[] {
  return subscriptions
    .filter((one) => !one.live && one.tenant === tenant)
    .toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0));
}
