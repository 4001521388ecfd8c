import {
  type Account,
  type AccountInvoice,
  type AccountLine,
  type Fate,
  linesByEvent,
} from '../account.ts';
import { exact, textOf, ZERO } from '../exact.ts';
import { isBillingDay, periodAt, scopeBefore } from './billing-period.ts';
import { dayOf } from './calendar.ts';
import { unitsOf } from './fees.ts';
import {
  type Invoice,
  type LagoState,
  type StoredEvent,
  type Subscription,
  zoneOf,
} from './state.ts';
import { endOf, startOf } from './usage.ts';

/** Returns the state of every accepted event after the jobs so far. */
export function accountOf(state: LagoState, at: number): Account {
  const invoices = state.invoices.map((invoice) => view(state, invoice));
  const progressive = new Set(
    state.invoices.flatMap(({ type, lago_id }) => (type === 'progressive_billing' ? lago_id : [])),
  );
  // The invoice of the period repeats this usage, and credits its earlier invoices.
  const final = invoices.filter(({ id, isFinal }) => isFinal && !progressive.has(id));
  const lines = linesByEvent(countedLines(final));
  const events = [...state.events.values()].map((event) => {
    const count = lines.get(event.lago_id) ?? 0;
    return {
      id: event.lago_id,
      units: textOf(unitsOf(state, event) ?? ZERO),
      lines: count,
      fate: count > 0 ? ({ kind: 'invoiced' } as const) : uninvoiced(state, event, at),
    };
  });
  return { invoices, events };
}

/** Leaves out lines of 0 for usage that another line prices. */
function countedLines(invoices: readonly AccountInvoice[]): readonly AccountInvoice[] {
  const isFree = ({ amount }: AccountLine): boolean => exact(amount).digits === 0n;
  const lines = invoices.flatMap((invoice) => invoice.lines);
  const paid = new Set(lines.flatMap((line) => (isFree(line) ? [] : line.events)));
  return invoices.map((invoice) => ({
    ...invoice,
    lines: invoice.lines.map((line) =>
      isFree(line) ? { ...line, events: line.events.filter((id) => !paid.has(id)) } : line,
    ),
  }));
}

function view(state: LagoState, invoice: Invoice): AccountInvoice {
  const [scope] = invoice.scopes;
  const subscription = state.subscriptions.find(({ lago_id }) => lago_id === scope?.subscription);
  return {
    id: invoice.lago_id,
    customer: invoice.customer,
    status: invoice.status,
    kind: invoice.reason === 'subscription_periodic' || isOfPeriodEnd(invoice) ? 'cycle' : 'other',
    of: subscription?.plan_code ?? '',
    from: scope?.from ?? invoice.createdAt,
    madeAt: invoice.createdAt,
    isFinal: invoice.status === 'finalized',
    lines: invoice.fees.map(({ code, units, cents, events }) => ({
      metric: code,
      units: textOf(units),
      amount: textOf({ ...cents, scale: cents.scale + 2 }),
      events,
    })),
  };
}

/**
 * Returns whether an invoice is of the end of a period. The invoice of a downgrade is, although it
 * also ends a subscription.
 */
function isOfPeriodEnd({ scopes, createdAt }: Invoice): boolean {
  const [scope] = scopes;
  return scope !== undefined && scope.to < createdAt;
}

function uninvoiced(state: LagoState, event: StoredEvent, at: number): Fate {
  if (!state.metrics.has(event.code)) return never('no metric of that code');
  if (unitsOf(state, event) === undefined) return never('its value is no plain number');
  const covering = state.subscriptions.filter(
    (one) =>
      one.external_id === event.external_subscription_id &&
      startOf(one) <= event.at &&
      event.at <= endOf(one),
  );
  if (covering.length === 0) return never('no subscription at its time');
  const charged = covering.filter((one) =>
    state.plans
      .get(one.plan_code)
      ?.charges.some(({ billable_metric_code }) => billable_metric_code === event.code),
  );
  if (covering.some((one) => isStillToCome(state, one, event.at, at))) return { kind: 'open' };
  if (charged.length === 0) return never('no charge for its metric');
  const closed = state.invoices.some(
    ({ type, scopes }) =>
      type !== 'progressive_billing' &&
      scopes.some(
        ({ subscription, from, to }) =>
          charged.some(({ lago_id }) => lago_id === subscription) &&
          from <= event.at &&
          event.at <= to,
      ),
  );
  return never(closed ? 'it came after its invoice was final' : 'its time is on no invoice');
}

/** Returns whether a future final invoice will have a moment of a subscription. */
function isStillToCome(
  state: LagoState,
  subscription: Subscription,
  time: number,
  at: number,
): boolean {
  const isDrafted = state.invoices.some(
    ({ status, scopes }) =>
      status === 'draft' &&
      scopes.some(
        (scope) =>
          scope.subscription === subscription.lago_id && scope.from <= time && time <= scope.to,
      ),
  );
  if (isDrafted) return true;
  if (subscription.status !== 'active') return false;
  if (time >= periodAt(state, subscription, at).from) return true;
  const zone = zoneOf(state, subscription.external_customer_id);
  const today = dayOf(at, zone);
  const runIsEarly =
    isBillingDay(state, subscription, at) &&
    subscription.billedOn !== today &&
    dayOf(startOf(subscription), zone) < today;
  return runIsEarly && time >= scopeBefore(state, subscription, at).from;
}

function never(because: string): Fate {
  return { kind: 'never', because };
}
