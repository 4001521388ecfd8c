import { type Account, type AccountInvoice, type Fate, linesByEvent } from '../account.ts';
import { type Exact, textOf, ZERO } from '../exact.ts';
import { eventsOf, rateOf, valueOf } from './lines.ts';
import { counts } from './metrics.ts';
import { customerOf, type Invoice, type MetronomeState, type StoredEvent } from './state.ts';
import { drafts, openStatement } from './statements.ts';

/** Returns the state of every accepted event. */
export function accountOf(state: MetronomeState, at: number): Account {
  const ids = new Map(state.events.map((event, index) => [event, String(index)]));
  const invoices = [...state.invoices, ...drafts(state, at)].map((one) => view(state, one, ids));
  const lines = linesByEvent(invoices.filter(({ isFinal }) => isFinal));
  const events = state.events.map((event, index) => {
    const id = String(index);
    const count = lines.get(id) ?? 0;
    const metric = state.metrics.find((one) => counts(one, event));
    return {
      id,
      units: textOf(valueOf(metric, event)),
      lines: count,
      fate: count > 0 ? ({ kind: 'invoiced' } as const) : uninvoiced(state, event),
    };
  });
  return { invoices, events };
}

function view(
  state: MetronomeState,
  invoice: Invoice,
  ids: ReadonlyMap<StoredEvent, string>,
): AccountInvoice {
  const contract = state.contracts.find(({ id }) => id === invoice.contract_id);
  const card = state.rateCards.find(({ id }) => id === contract?.rate_card_id);
  const isCents = card?.fiat_credit_type.name.includes('cents') === true;
  return {
    id: invoice.id,
    customer: invoice.customer_id,
    status: invoice.status,
    kind: 'cycle',
    of: card?.name ?? '',
    from: invoice.from,
    madeAt: invoice.finalAt,
    isFinal: invoice.status === 'FINALIZED',
    lines: invoice.lines.map(({ name, quantity, total, events }) => ({
      metric: name,
      units: textOf(quantity),
      amount: textOf(isCents ? hundredth(total) : total),
      events: events.map((event) => ids.get(event) ?? ''),
    })),
  };
}

function hundredth({ digits, scale }: Exact): Exact {
  return digits === 0n ? ZERO : { digits, scale: scale + 2 };
}

function uninvoiced(state: MetronomeState, event: StoredEvent): Fate {
  const customer = customerOf(state, event.customer_id);
  if (customer === undefined) return never('no customer has its alias');
  if (!state.metrics.some((metric) => counts(metric, event))) return never('no metric counts it');
  const covering = state.contracts.filter(
    (contract) =>
      contract.customer_id === customer.id &&
      contract.archived_at === undefined &&
      eventsOf(
        state,
        contract,
        Date.parse(contract.starting_at),
        contract.ending_before === undefined ? Infinity : Date.parse(contract.ending_before),
      ).includes(event),
  );
  if (covering.length === 0) return never('no contract at its time');
  const priced = covering.filter((contract) =>
    state.products.some((product) => rateOf(state, contract, product, event) !== undefined),
  );
  if (priced.length === 0) return never('no rate at its time');
  const at = Date.parse(event.timestamp);
  const isOpen = priced.some((contract) => {
    const next = openStatement(state, contract);
    return next !== undefined && next.from <= at;
  });
  if (isOpen) return { kind: 'open' };
  const isFinal = state.invoices.some(
    ({ contract_id, from, to }) =>
      priced.some(({ id }) => id === contract_id) && from <= at && at < to,
  );
  return never(isFinal ? 'it came after its invoice was final' : 'its time is on no invoice');
}

function never(because: string): Fate {
  return { kind: 'never', because };
}
