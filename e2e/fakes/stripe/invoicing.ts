import { applyGrants, totalCents } from './amounts.ts';
import { type Exact, exact, minus, plus, sum, times, ZERO } from '../exact.ts';
import { notify } from './notices.ts';
import {
  type Invoice,
  type InvoiceItem,
  type InvoiceLine,
  type Price,
  type MeterEvent,
  nextId,
  type Reading,
  type StripeState,
  type Subscription,
  type SubscriptionItem,
} from './state.ts';

const DAY_SECONDS = 86_400;

/** Returns a line with the current usage of an item. */
export function usageLine(
  state: StripeState,
  subscription: Subscription,
  item: SubscriptionItem,
  until: number,
  isFixed: boolean,
): InvoiceLine {
  const reading: Reading = {
    subscription: subscription.id,
    price: item.price,
    from: Math.max(item.from, subscription.periodStart),
    to: until,
  };
  return {
    id: nextId(state, 'il'),
    description: isFixed ? `Usage until ${new Date(until * 1000).toISOString()}` : 'Usage',
    price: item.price,
    subscription: subscription.id,
    from: reading.from,
    to: reading.to,
    reading: isFixed ? undefined : reading,
    taxBehavior: state.prices.get(item.price)?.tax_behavior ?? '',
    isTaxed: true,
    isDiscountable: true,
    ...read(state, subscription.customer, reading),
  };
}

/** Returns the current usage of a reading. A total below zero bills nothing. */
function read(
  state: StripeState,
  customer: string,
  { price, from, to }: Reading,
): Pick<InvoiceLine, 'quantity' | 'cents' | 'events'> {
  const { meter, unit_amount_decimal, tiers, tiers_mode } = state.prices.get(price) ?? {};
  const events = state.events.filter(
    (event) =>
      event.customer === customer &&
      event.meter === meter &&
      !event.isCanceled &&
      event.timestamp >= from &&
      event.timestamp < to,
  );
  const total = aggregated(state.meters.get(meter ?? '')?.formula, events);
  const quantity = total.digits < 0n ? ZERO : total;
  const cents =
    tiers === undefined
      ? times(quantity, exact(unit_amount_decimal ?? '0'))
      : tieredCents(tiers, tiers_mode === 'volume', quantity);
  return { quantity, cents, events };
}

/** Prices the units of each tier at its own price, or all units at the price of the last tier. */
function tieredCents(
  tiers: NonNullable<Price['tiers']>,
  isVolume: boolean,
  quantity: Exact,
): Exact {
  let below = ZERO;
  let cents = ZERO;
  for (const { up_to, unit_amount_decimal } of tiers) {
    const each = exact(unit_amount_decimal);
    const end = up_to === null ? quantity : exact(String(up_to));
    const isReached = minus(quantity, end).digits <= 0n;
    if (isReached && isVolume) return times(quantity, each);
    cents = plus(cents, times(minus(isReached ? quantity : end, below), each));
    if (isReached) return cents;
    below = end;
  }
  return cents;
}

function aggregated(formula: string | undefined, events: readonly MeterEvent[]): Exact {
  if (formula === 'count') return exact(String(events.length));
  if (formula === 'last') {
    const last = events.toSorted((a, b) => a.timestamp - b.timestamp).at(-1);
    return exact(last?.value ?? '0');
  }
  return sum(events.map(({ value }) => exact(value)));
}

/** Adds a line with a fixed quantity that waits for the subscription's next invoice. */
export function addInvoiceItem(
  state: StripeState,
  customer: string,
  currency: string,
  line: InvoiceLine,
  { created = 0, metadata = {} }: Partial<Pick<InvoiceItem, 'created' | 'metadata'>> = {},
): string {
  const id = nextId(state, 'ii');
  state.invoiceItems.push({ id, customer, currency, line, created, metadata, invoice: undefined });
  return id;
}

export interface InvoiceRequest {
  readonly customer: string;
  readonly currency: string;
  readonly subscription: Subscription | undefined;
  readonly reason: Invoice['reason'];
  readonly lines: readonly InvoiceLine[];
  readonly periodStart: number;
  readonly at: number;
  /** Undefined where it is final at once. */
  readonly finalizesAt: number | undefined;
}

/** Makes a draft of the given lines, after waiting items of the same subscription and currency. */
export function makeInvoice(state: StripeState, request: InvoiceRequest): Invoice {
  const { customer, currency, subscription, reason, lines, periodStart, at, finalizesAt } = request;
  const waiting = state.invoiceItems.filter(
    (item) =>
      item.invoice === undefined &&
      item.customer === customer &&
      item.currency === currency &&
      (item.line.subscription === null || item.line.subscription === (subscription?.id ?? null)),
  );
  const invoice: Invoice = {
    id: nextId(state, 'in'),
    customer,
    subscription: subscription?.id ?? null,
    currency,
    reason,
    created: at,
    periodStart,
    periodEnd: at,
    status: 'draft',
    finalizesAt,
    finalizedAt: undefined,
    collects: !state.rules.stopsDrafts || finalizesAt === undefined,
    granted: new Map(),
    balance: 0,
    attempts: 0,
    dueAt: undefined,
    lines: [...waiting.map(({ line }) => line), ...lines],
  };
  for (const item of waiting) item.invoice = invoice.id;
  state.invoices.push(invoice);
  notify(state, 'invoice.created', invoice, at);
  if (finalizesAt === undefined) finalize(state, invoice, at);
  return invoice;
}

/** Reads usage for the last time. Later usage is on neither this invoice nor another. */
export function finalize(state: StripeState, invoice: Invoice, at: number): void {
  invoice.lines = invoice.lines.map((line) =>
    line.reading === undefined ? line : { ...line, ...read(state, invoice.customer, line.reading) },
  );
  applyGrants(state, invoice);
  invoice.finalizesAt = undefined;
  invoice.finalizedAt = at;
  const balance = state.balances.get(invoice.customer) ?? 0;
  const total = totalCents(state, invoice);
  // A total below zero is owed to the customer.
  invoice.balance = Math.max(balance, -Math.max(0, total));
  const due = total + invoice.balance;
  const isCollected = due >= state.rules.minimumCents;
  invoice.status = isCollected ? 'open' : 'paid';
  if (!isCollected) invoice.balance -= due;
  state.balances.set(invoice.customer, balance - invoice.balance);
  const days = state.subscriptions.get(invoice.subscription ?? '')?.daysUntilDue ?? undefined;
  if (days !== undefined) invoice.dueAt = at + days * DAY_SECONDS;
  notify(state, 'invoice.finalized', invoice, at);
}
