import { type Account, type AccountInvoice, type Fate, linesByEvent } from '../account.ts';
import { textOf } from '../exact.ts';
import type { Invoice, MeterEvent, StripeState, Subscription, SubscriptionItem } from './state.ts';

const FINAL: readonly string[] = ['open', 'paid', 'uncollectible'];
/** Usage that nobody is charged for until a person finalizes its draft. */
export const STOPPED_DRAFT = 'its draft does not go on by itself';
const ENDED: readonly string[] = ['canceled', 'incomplete_expired'];

/** Returns the state of every accepted meter event that was not cancelled. */
export function accountOf(state: StripeState): Account {
  const ids = new Map(state.events.map((event, index) => [event, String(index)]));
  const invoices = state.invoices.map((invoice) => view(state, invoice, ids));
  const lines = linesByEvent(invoices.filter(({ isFinal }) => isFinal));
  const events = state.events.flatMap((event, index) => {
    if (event.isCanceled) return [];
    const id = String(index);
    const count = lines.get(id) ?? 0;
    const fate = count > 0 ? ({ kind: 'invoiced' } as const) : uninvoiced(state, event);
    return [{ id, units: event.value, lines: count, fate }];
  });
  return { invoices, events };
}

function view(
  state: StripeState,
  invoice: Invoice,
  ids: ReadonlyMap<MeterEvent, string>,
): AccountInvoice {
  return {
    id: invoice.id,
    customer: invoice.customer,
    status: invoice.status,
    kind: invoice.reason === 'subscription_cycle' ? 'cycle' : 'other',
    of: invoice.subscription ?? '',
    from: invoice.periodStart * 1000,
    madeAt: invoice.created * 1000,
    isFinal: FINAL.includes(invoice.status),
    lines: invoice.lines.map(({ price, quantity, cents, events }) => ({
      metric: state.meters.get(state.prices.get(price ?? '')?.meter ?? '')?.event_name ?? '',
      units: textOf(quantity),
      amount: textOf({ ...cents, scale: cents.scale + 2 }),
      events: events.map((event) => ids.get(event) ?? ''),
    })),
  };
}

function uninvoiced(state: StripeState, event: MeterEvent): Fate {
  const voided = state.invoices.find(
    ({ status, lines }) => status === 'void' && lines.some(({ events }) => events.includes(event)),
  );
  if (voided !== undefined) return { kind: 'never', because: 'its invoice is void' };
  const isStopped = state.invoices.some(
    ({ status, collects, lines }) =>
      status === 'draft' && !collects && lines.some(({ events }) => events.includes(event)),
  );
  if (isStopped) return { kind: 'never', because: STOPPED_DRAFT };
  if (isStillToCome(state, event)) return { kind: 'open' };
  const priced = spellsOf(state, event);
  if (priced.length === 0) return { kind: 'never', because: 'no price of its meter at its time' };
  const isClosed = state.invoices.some(({ lines }) =>
    lines.some(({ price, subscription, from, to }) =>
      priced.some(
        ({ spell, of }) =>
          of.id === subscription &&
          spell.price === price &&
          from <= event.timestamp &&
          event.timestamp < to,
      ),
    ),
  );
  const because = isClosed
    ? 'it came after its quantity was fixed'
    : 'the item or subscription that priced it ended without an invoice';
  return { kind: 'never', because };
}

function isStillToCome(state: StripeState, event: MeterEvent): boolean {
  const drafts = state.invoices.filter(
    ({ status, finalizesAt, collects }) =>
      status === 'draft' && collects && finalizesAt !== undefined,
  );
  const isOnDraft = drafts.some(({ customer, lines }) =>
    lines.some(
      ({ events, reading }) =>
        events.includes(event) ||
        (reading !== undefined &&
          customer === event.customer &&
          state.prices.get(reading.price)?.meter === event.meter &&
          reading.from <= event.timestamp &&
          event.timestamp < reading.to),
    ),
  );
  if (isOnDraft) return true;
  const waits = state.invoiceItems.some(
    ({ invoice, line }) =>
      invoice === undefined &&
      line.events.includes(event) &&
      !ENDED.includes(state.subscriptions.get(line.subscription ?? '')?.status ?? ''),
  );
  if (waits) return true;
  return spellsOf(state, event).some(
    ({ spell, of }) =>
      spell.to === undefined &&
      !ENDED.includes(of.status) &&
      of.endedAt === undefined &&
      event.timestamp >= of.periodStart,
  );
}

/** Returns the items that price usage of a moment, of the meter's customer. */
function spellsOf(
  state: StripeState,
  { customer, meter, timestamp }: MeterEvent,
): readonly { readonly spell: SubscriptionItem; readonly of: Subscription }[] {
  return [...state.subscriptions.values()]
    .filter((one) => one.customer === customer)
    .flatMap((of) =>
      [...of.items, ...of.replaced]
        .filter(
          ({ price, from, to }) =>
            state.prices.get(price)?.meter === meter &&
            from <= timestamp &&
            timestamp < Math.min(to ?? Infinity, of.endedAt ?? Infinity),
        )
        .map((spell) => ({ spell, of })),
    );
}
