import { type Exact, exact, minus, parseExact, share, sum, times, ZERO } from '../exact.ts';
import { amountOf } from './charge-models.ts';
import { cycleOf } from './billing-period.ts';
import { dayOf, periodOf } from './calendar.ts';
import {
  type Charge,
  type ChargeFilter,
  type Fee,
  type Invoice,
  type InvoiceScope,
  type LagoState,
  type Plan,
  type StoredEvent,
  type Subscription,
  nextSubscription,
  zoneOf,
} from './state.ts';

const ALL_VALUES = '__ALL_FILTER_VALUES__';
const CENTS = exact('100');
const PRECISION = 15;

/**
 * Returns a subscription's fees for an invoice, by the current plan and events: Lago has no history
 * of prices (lago-api app/services/invoices/calculate_fees_service.rb).
 */
export function feesOf(
  state: LagoState,
  scope: InvoiceScope,
  reason?: Invoice['reason'],
): readonly Fee[] {
  const subscription = state.subscriptions.find(({ lago_id }) => lago_id === scope.subscription);
  const plan = state.plans.get(subscription?.plan_code ?? '');
  if (subscription === undefined || plan === undefined) return [];
  const base = baseFee(state, subscription, plan, scope);
  const isProgressive = reason === 'progressive_billing';
  const charges = plan.charges
    .filter(({ pay_in_advance }) => !pay_in_advance)
    .flatMap((charge) => {
      const fees = chargeFees(state, subscription, charge, scope);
      return isProgressive ? fees : withMinimum(state, subscription, charge, fees, scope);
    });
  if (isProgressive) return charges;
  const fees = base === undefined ? charges : [base, ...charges];
  return [...fees, ...commitmentFees(state, subscription, plan, fees, scope)];
}

/**
 * Adds a charge's minimum for the days in the scope, beside a fee without a filter
 * (app/services/fees/create_true_up_service.rb).
 */
function withMinimum(
  state: LagoState,
  subscription: Subscription,
  charge: Charge,
  fees: readonly Fee[],
  scope: InvoiceScope,
): readonly Fee[] {
  const lacking = lackingCents(state, subscription, charge.min_amount_cents, fees, scope);
  if (lacking === undefined) return fees;
  const parent = fees.find(({ filters }) => filters === null);
  const own = parent ?? chargeFee(state, subscription, charge, undefined, [], scope);
  const trueUp: Fee = {
    ...own,
    lago_id: state.nextId(),
    trueUpOf: own.lago_id,
    units: exact('1'),
    cents: lacking,
    each: { ...lacking, scale: lacking.scale + 2 },
    events: [],
  };
  return [...fees, ...(parent === undefined ? [own] : []), trueUp];
}

/**
 * Returns a plan's minimum, which has no metric
 * (app/services/fees/commitments/minimum/create_service.rb).
 */
function commitmentFees(
  state: LagoState,
  subscription: Subscription,
  { code, minimum_commitment }: Plan,
  fees: readonly Fee[],
  scope: InvoiceScope,
): readonly Fee[] {
  const minimum = minimum_commitment?.amount_cents ?? 0;
  const lacking = lackingCents(state, subscription, minimum, fees, scope);
  if (lacking === undefined) return [];
  const fee: Fee = {
    lago_id: state.nextId(),
    type: 'commitment',
    code,
    charge: null,
    filters: null,
    subscription: subscription.lago_id,
    units: exact('1'),
    cents: lacking,
    each: { ...lacking, scale: lacking.scale + 2 },
    events: [],
    from: scope.from,
    to: scope.to,
  };
  return [fee];
}

function lackingCents(
  state: LagoState,
  subscription: Subscription,
  minimum: number,
  fees: readonly Fee[],
  { from, to }: InvoiceScope,
): Exact | undefined {
  const zone = zoneOf(state, subscription.external_customer_id);
  const { first, next } = periodOf(dayOf(from, zone), cycleOf(state, subscription));
  const days = dayOf(to, zone) - dayOf(from, zone) + 1;
  const wanted = share(exact(String(minimum)), days, next - first, PRECISION);
  const lacking = minus(wanted, sum(fees.map(({ cents }) => cents)));
  return lacking.digits > 0n ? lacking : undefined;
}

/**
 * Returns the plan's own price for the days in the scope. The day of an upgrade belongs to the next
 * plan.
 */
function baseFee(
  state: LagoState,
  subscription: Subscription,
  plan: Plan,
  { from, to }: InvoiceScope,
): Fee | undefined {
  if (plan.amount_cents === 0 || plan.pay_in_advance) return undefined;
  const zone = zoneOf(state, subscription.external_customer_id);
  const { first, next } = periodOf(dayOf(from, zone), cycleOf(state, subscription));
  const isReplaced = nextSubscription(state, subscription)?.status === 'active';
  const isComplete = dayOf(to + 1, zone) >= next;
  const days =
    Math.min(dayOf(to, zone) + (isReplaced && !isComplete ? 0 : 1), next) - dayOf(from, zone);
  if (days <= 0) return undefined;
  return {
    lago_id: state.nextId(),
    type: 'subscription',
    code: plan.code,
    charge: null,
    filters: null,
    subscription: subscription.lago_id,
    units: exact('1'),
    cents: share(exact(String(plan.amount_cents)), days, next - first, PRECISION),
    each: { ...exact(String(plan.amount_cents)), scale: 2 },
    events: [],
    from,
    to,
  };
}

/** Returns a fee for each price of a charge that has usage. */
function chargeFees(
  state: LagoState,
  subscription: Subscription,
  charge: Charge,
  { from, to }: InvoiceScope,
): readonly Fee[] {
  const events = [...state.events.values()].filter(
    (event) =>
      event.external_subscription_id === subscription.external_id &&
      event.code === charge.billable_metric_code &&
      event.at >= from &&
      event.at <= to &&
      unitsOf(state, event) !== undefined,
  );
  const byPrice = Map.groupBy(events, (event) => filterOf(charge, event));
  return [...byPrice].map(([filter, own]) =>
    chargeFee(state, subscription, charge, filter, own, { from, to }),
  );
}

export function chargeFee(
  state: LagoState,
  subscription: Subscription,
  charge: Charge,
  filter: ChargeFilter | undefined,
  events: readonly StoredEvent[],
  { from, to }: { readonly from: number; readonly to: number },
): Fee {
  const units = sum(events.map((event) => unitsOf(state, event) ?? ZERO));
  const { properties } = filter ?? charge;
  return {
    lago_id: state.nextId(),
    type: 'charge',
    code: charge.billable_metric_code,
    charge: charge.lago_id,
    filters: filter?.values ?? null,
    subscription: subscription.lago_id,
    units,
    cents: times(amountOf(charge.charge_model, properties, units), CENTS),
    // The price of one unit. With tiers it is that of the first unit, but only prices of one amount
    // use it.
    each: amountOf(charge.charge_model, properties, exact('1')),
    events: events.map(({ lago_id }) => lago_id),
    from,
    to,
  };
}

/**
 * Returns the quantity of an event; undefined where its text is no plain number. Lago skips such
 * events silently.
 */
export function unitsOf(state: LagoState, event: StoredEvent): Exact | undefined {
  const value = event.properties[state.metrics.get(event.code)?.field_name ?? ''];
  const text = typeof value === 'number' ? JSON.stringify(value) : value;
  return typeof text === 'string' ? parseExact(text) : undefined;
}

/**
 * Returns the most specific filter that matches an event; undefined where the charge's own
 * properties price it.
 */
export function filterOf(charge: Charge, event: StoredEvent): ChargeFilter | undefined {
  return charge.filters
    .filter((filter) => matches(filter, event))
    .toSorted((a, b) => Object.keys(b.values).length - Object.keys(a.values).length)
    .at(0);
}

function matches({ values }: ChargeFilter, event: StoredEvent): boolean {
  return Object.entries(values).every(([key, wanted]) => {
    const value = event.properties[key];
    if (value === undefined) return false;
    return (
      wanted.includes(ALL_VALUES) ||
      wanted.includes(typeof value === 'string' ? value : JSON.stringify(value))
    );
  });
}
