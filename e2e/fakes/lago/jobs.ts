import { currencyOf, finalize, invoice } from './billing.ts';
import { isBillingDay, scopeBefore } from './billing-period.ts';
import { dayOf } from './calendar.ts';
import { ingest } from './events.ts';
import { unitsOf } from './fees.ts';
import { handOver, start, terminate } from './lifecycle.ts';
import { netTermOf } from './invoice-view.ts';
import { notify, notifyEventErrors } from './notices.ts';
import {
  type LagoState,
  nextSubscription,
  type StoredEvent,
  type Subscription,
  zoneOf,
} from './state.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const ACTIVATION_MS = 5 * MINUTE_MS;

/** The jobs that make and finalize invoices, by their minute of the hour (lago-api clock.rb). */
const HOURLY = [
  { minute: 5, run: endSubscriptions },
  { minute: 5, run: reportErrors },
  { minute: 10, run: bill },
  { minute: 20, run: finalizeDrafts },
  { minute: 25, run: markOverdue },
] as const;

/** Runs every job that is due until a moment, each at its own time. */
export function runJobs(state: LagoState, until: number): void {
  let at = state.jobsRunUntil ?? until;
  for (;;) {
    const activation = nextActivation(state, at);
    const hourly = nextHourly(at);
    at = Math.min(activation, hourly);
    if (at > until) break;
    ingest(state, at);
    if (at === activation) activate(state, at);
    for (const { minute, run } of HOURLY) {
      if (at % HOUR_MS === minute * MINUTE_MS) run(state, at);
    }
  }
  ingest(state, until);
  state.jobsRunUntil = Math.max(state.jobsRunUntil ?? until, until);
}

function nextHourly(after: number): number {
  const hour = Math.floor(after / HOUR_MS) * HOUR_MS;
  const minute = HOURLY.find((job) => hour + job.minute * MINUTE_MS > after)?.minute;
  return minute === undefined
    ? hour + HOUR_MS + HOURLY[0].minute * MINUTE_MS
    : hour + minute * MINUTE_MS;
}

/** Returns the next run of the five-minute job that has something to activate. */
function nextActivation(state: LagoState, after: number): number {
  const first = (Math.floor(after / ACTIVATION_MS) + 1) * ACTIVATION_MS;
  const starts = pendingWithoutPredecessor(state).map(
    ({ subscription_at }) => Math.ceil(Date.parse(subscription_at) / ACTIVATION_MS) * ACTIVATION_MS,
  );
  return Math.max(first, Math.min(...starts));
}

function activate(state: LagoState, at: number): void {
  for (const subscription of pendingWithoutPredecessor(state)) {
    const from = Date.parse(subscription.subscription_at);
    if (from <= at) start(state, subscription, from);
  }
}

function pendingWithoutPredecessor({ subscriptions }: LagoState): readonly Subscription[] {
  return subscriptions.filter(
    ({ status, previous_id }) => status === 'pending' && previous_id === null,
  );
}

function endSubscriptions(state: LagoState, at: number): void {
  for (const subscription of active(state)) {
    if (subscription.ending_at === null) continue;
    const zone = zoneOf(state, subscription.external_customer_id);
    const isDue = dayOf(Date.parse(subscription.ending_at), zone) === dayOf(at, zone);
    if (isDue) terminate(state, subscription, at);
  }
}

/**
 * Invoices the period before the billing day, once for each subscription that began before that
 * day. It also makes changes of plan that waited for it (lago-api
 * app/services/subscriptions/organization_billing_service.rb).
 */
function bill(state: LagoState, at: number): void {
  const due = active(state).filter((one) => isDue(state, one, at));
  const periodic: Subscription[] = [];
  for (const subscription of due) {
    subscription.billedOn = dayOf(at, zoneOf(state, subscription.external_customer_id));
    const next = nextSubscription(state, subscription);
    // The old plan's last invoice covers the previous period, so its hours of the billing day are
    // on none.
    if (next?.status === 'pending') {
      handOver(state, subscription, next, at, scopeBefore(state, subscription, at));
    } else periodic.push(subscription);
  }
  const groups = Map.groupBy(periodic, (one) =>
    JSON.stringify([one.external_customer_id, currencyOf(state, one)]),
  );
  for (const group of groups.values()) {
    const [first] = group;
    if (first === undefined) continue;
    const scopes = group.map((one) => scopeBefore(state, one, at));
    const { external_customer_id: customer } = first;
    invoice(state, customer, currencyOf(state, first), 'subscription_periodic', scopes, at);
  }
}

function isDue(state: LagoState, subscription: Subscription, at: number): boolean {
  const zone = zoneOf(state, subscription.external_customer_id);
  const today = dayOf(at, zone);
  return (
    isBillingDay(state, subscription, at) &&
    subscription.billedOn !== today &&
    dayOf(Date.parse(subscription.started_at ?? ''), zone) < today &&
    (subscription.ending_at === null || dayOf(Date.parse(subscription.ending_at), zone) !== today)
  );
}

function finalizeDrafts(state: LagoState, at: number): void {
  for (const draft of state.invoices) {
    if (draft.status !== 'draft') continue;
    if (draft.issuingDay <= dayOf(at, zoneOf(state, draft.customer))) finalize(state, draft, at);
  }
}

/** Marks unpaid invoices as overdue from the end of the day on which they are due. */
function markOverdue(state: LagoState, at: number): void {
  for (const one of state.invoices) {
    const days = netTermOf(state, one);
    if (days === undefined || one.status !== 'finalized' || one.payment_overdue) continue;
    const isLate = one.issuingDay + days < dayOf(at, zoneOf(state, one.customer));
    if (!isLate || one.payment_status === 'succeeded') continue;
    one.payment_overdue = true;
    notify(state, 'invoice.payment_overdue', one, at);
  }
}

/** Reports events of the previous clock hour that cannot be counted. */
function reportErrors(state: LagoState, at: number): void {
  const to = Math.floor(at / HOUR_MS) * HOUR_MS;
  const isDue = (event: StoredEvent): boolean => Date.parse(event.created_at) < to;
  const due = state.unvalidated.filter(isDue);
  if (due.length === 0) return;
  state.unvalidated = state.unvalidated.filter((event) => !isDue(event));
  const invalid_code: string[] = [];
  const missing_aggregation_property: string[] = [];
  for (const event of due) {
    if (!state.metrics.has(event.code)) invalid_code.push(event.transaction_id);
    else if (unitsOf(state, event) === undefined) {
      missing_aggregation_property.push(event.transaction_id);
    }
  }
  if (invalid_code.length + missing_aggregation_property.length === 0) return;
  notifyEventErrors(state, { invalid_code, missing_aggregation_property }, at);
}

function active({ subscriptions }: LagoState): readonly Subscription[] {
  return subscriptions.filter(({ status }) => status === 'active');
}
