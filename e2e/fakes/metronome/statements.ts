import { nextBoundary } from '../boundaries.ts';
import { drawn } from './balances.ts';
import { linesOf } from './lines.ts';
import type { Contract, Invoice, MetronomeState } from './state.ts';

const HOUR_MS = 3_600_000;
const INTERVALS = {
  WEEKLY: 'week',
  MONTHLY: 'month',
  QUARTERLY: 'quarter',
  ANNUAL: 'year',
} as const;

/** A contract's usage of one period `[from, to)`. */
export interface Statement {
  readonly contract: Contract;
  readonly from: number;
  readonly to: number;
  /** The moment from which no event changes it. */
  readonly finalAt: number;
}

/**
 * Returns the first statement of a contract that is not final; undefined after the contract's end.
 */
export function openStatement(state: MetronomeState, contract: Contract): Statement | undefined {
  const { starting_at, ending_before, schedule, finalUntil, createdAt } = contract;
  const grace = state.rules.graceHours * HOUR_MS;
  const end = ending_before === undefined ? Infinity : Date.parse(ending_before);
  let from = finalUntil ?? Date.parse(starting_at);
  if (contract.archived_at !== undefined) return undefined;
  for (;;) {
    if (from >= end) return undefined;
    const interval = INTERVALS[schedule.frequency];
    const next = nextBoundary(schedule.anchor / 1000, interval, from / 1000) * 1000;
    const to = Math.min(next, end);
    const wasOver = to + grace <= createdAt;
    if (!wasOver || state.rules.pastStatements === 'generated') {
      return { contract, from, to, finalAt: Math.max(to, createdAt) + grace };
    }
    from = to;
  }
}

/** Returns every statement of all contracts that has begun by a moment and is not final. */
export function drafts(state: MetronomeState, at: number): readonly Invoice[] {
  return state.contracts.flatMap((contract) => {
    const found: Invoice[] = [];
    let next = openStatement(state, contract);
    while (next !== undefined && next.from <= at) {
      found.push({ ...made(state, next), status: 'DRAFT', finalAt: next.finalAt });
      next = openStatement(state, { ...contract, finalUntil: next.to });
    }
    return found;
  });
}

/** Finalizes statements that are due until a moment, each at its own time. */
export function runUntil(state: MetronomeState, until: number): void {
  for (;;) {
    const due = state.contracts
      .flatMap((contract) => openStatement(state, contract) ?? [])
      .filter(({ finalAt }) => finalAt <= until)
      .toSorted((a, b) => a.finalAt - b.finalAt);
    const [first] = due;
    if (first === undefined) break;
    finalize(state, first);
  }
  state.ranUntil = Math.max(state.ranUntil, until);
}

function finalize(state: MetronomeState, statement: Statement): void {
  const finalAt = Math.max(statement.finalAt, state.ranUntil);
  const invoice: Invoice = { ...made(state, statement), status: 'FINALIZED', finalAt };
  state.invoices.push(invoice);
  statement.contract.finalUntil = statement.to;
  report(state, 'invoice.finalized', invoice, finalAt);
}

function made(state: MetronomeState, { contract, from, to }: Statement) {
  const lines = linesOf(state, contract, from, to);
  return {
    id: idOf(state, contract, from),
    customer_id: contract.customer_id,
    contract_id: contract.id,
    from,
    to,
    lines,
    applied: drawn(state, contract, lines, from, to),
  };
}

/** Returns the id of a statement. A draft keeps its id when it becomes final. */
function idOf(state: MetronomeState, contract: Contract, from: number): string {
  const key = `${contract.id} ${from}`;
  const id = state.draftIds.get(key) ?? state.nextId();
  state.draftIds.set(key, id);
  return id;
}

/** Voids final invoices; drafts disappear with their contracts. */
export function voidInvoices(state: MetronomeState, is: (invoice: Invoice) => boolean): void {
  for (const invoice of state.invoices) {
    if (invoice.status === 'FINALIZED' && is(invoice)) invoice.status = 'VOID';
  }
}

/** Computes a void invoice again from the current events and rates, under another id. */
export function regenerate(state: MetronomeState, before: Invoice, at: number): Invoice {
  const contract = state.contracts.find(({ id }) => id === before.contract_id);
  const { from, to } = before;
  const lines = contract === undefined ? [] : linesOf(state, contract, from, to);
  const invoice: Invoice = {
    ...before,
    id: state.nextId(),
    status: 'FINALIZED',
    finalAt: at,
    lines,
    applied: contract === undefined ? [] : drawn(state, contract, lines, from, to),
  };
  state.invoices.push(invoice);
  report(state, 'invoice.finalized', invoice, at);
  return invoice;
}

function report(state: MetronomeState, type: string, invoice: Invoice, at: number): void {
  const { id, customer_id, contract_id } = invoice;
  const about = { invoice_id: id, customer_id, contract_id };
  state.notices.push({ id: state.nextId(), type, at, about });
}
