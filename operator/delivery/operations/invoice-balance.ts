import type { FinalInvoice, OpenUsage, UsageLine } from '../../destinations/invoices.ts';
import { nanosFromDecimal, parseSigned } from '../../model/decimal.ts';
import { greatest, least } from '../../model/extremes.ts';
import { addToMarks, type AgeMark, agedMark, closeMarks, markAge } from './age-marks.ts';

/**
 * What was delivered of a tenant's metric, held against its invoices (docs/explanation/delivery.md#invoices). Sums
 * are nano-units, times milliseconds since the epoch.
 */
export interface Balance {
  /** Usage before is invoiced for good, or never will be; absent while nothing is. */
  until?: number;
  /** Delivered usage that begins at `until` or later. */
  open: bigint;
  /** How old that is. */
  marks: readonly AgeMark[];
  /** What was delivered before `until`, less what is invoiced. */
  missing: bigint;
  /** What of it was delivered after `until` had been reached. */
  late: bigint;
  /** Of all invoices that are compared. */
  invoiced: bigint;
  /** When `missing` changed last. */
  changedAt: number;
  /** Where the last lines left out a stretch of time: its end, and its beginning unless it has none. */
  hole?: { readonly from?: number; readonly to: number };
  /** Of the last line that has a price: what a unit costs. */
  price?: { readonly each: number; readonly currency: string };
  /** Where lines of the last invoice charge the same usage at once: what a unit costs on each. */
  prices?: readonly number[];
}

/** A tenant's balances, and the invoices in them. */
export interface TenantBalances {
  /** Everything that was delivered since its last closing is known. */
  isComplete: boolean;
  /** When its earliest usage began: what was invoiced for before is not ours. */
  firstAt?: number;
  /** The end of what is invoiced, but for what `open` names. */
  until?: number;
  open: readonly OpenUsage[];
  readonly metrics: Map<string, Balance>;
  /** What of each invoice is in the balances, by metric. */
  readonly counted: Map<
    string,
    {
      readonly at: number;
      /** By metric. */
      readonly sums: ReadonlyMap<string, CountedLines>;
    }
  >;
  /** Whom its invoices are made for, as the billing system said last. */
  payer?: string;
}

export interface CountedLines {
  readonly nanos: bigint;
  /** Lines that end by then are in it. Infinity where an earlier release counted all lines of a metric at once. */
  readonly to: number;
}

export function emptyBalances(isComplete: boolean): TenantBalances {
  return {
    isComplete,
    open: [],
    metrics: new Map(),
    counted: new Map(),
  };
}

/** Adds an event that was delivered. What begins before the invoices' end comes too late for them. */
export function addDelivered(
  tenant: TenantBalances,
  event: { readonly metric: string; readonly at: number; readonly nanos: bigint },
  now: number,
): void {
  const { metric, at, nanos } = event;
  tenant.firstAt = Math.min(tenant.firstAt ?? at, at);
  const balance = tenant.metrics.get(metric) ?? newBalance(tenant, metric, now);
  tenant.metrics.set(metric, balance);
  if (balance.until === undefined || at >= balance.until) {
    balance.open += nanos;
    balance.marks = addToMarks(balance.marks, at, nanos);
    return;
  }
  balance.late += nanos;
  change(balance, nanos, now);
}

/** For each metric whose invoices reach further than before: until when. */
export function closings(
  tenant: TenantBalances,
  invoices: readonly FinalInvoice[],
  open: readonly OpenUsage[],
): ReadonlyMap<string, number> {
  const ends = [tenant.until ?? [], ...invoices.map(({ until }) => until)].flat();
  if (ends.length === 0) return new Map();
  const end = greatest(ends);
  const lines = invoices.flatMap((invoice) => invoice.lines.map(({ metric }) => metric));
  const found = new Map<string, number>();
  for (const metric of new Set([...tenant.metrics.keys(), ...lines])) {
    const until = closedUntil(metric, end, open);
    const before = tenant.metrics.get(metric)?.until ?? Number.NEGATIVE_INFINITY;
    if (until > before) found.set(metric, until);
  }
  return found;
}

/** Until when a metric's usage is closed; undefined while nothing is. */
export function closedFor({ metrics, until, open }: TenantBalances, metric: string) {
  const own = metrics.get(metric)?.until;
  return own ?? (until === undefined ? undefined : closedUntil(metric, until, open));
}

export interface Closing {
  readonly until: number;
  /** What was delivered that begins at `until` or later. */
  readonly staying: bigint;
  /** What begins before and was written after the invoice was final. */
  readonly late: bigint;
}

/**
 * Takes over invoices. `since` is where the billing system's answer begins: what it has left out from then
 * on is void. A tenant of whom not everything is known begins here, and is compared from the next time on.
 */
export function applyInvoices(
  tenant: TenantBalances,
  answer: {
    readonly invoices: readonly FinalInvoice[];
    readonly open: readonly OpenUsage[];
    readonly since: number;
  },
  closing: ReadonlyMap<string, Closing>,
  now: number,
): void {
  const { invoices, open, since } = answer;
  const ends = [tenant.until ?? [], ...invoices.map(({ until }) => until)].flat();
  if (ends.length > 0) tenant.until = greatest(ends);
  tenant.open = open;
  for (const [metric, { until, staying, late }] of closing) {
    const balance = tenant.metrics.get(metric) ?? newBalance(tenant, metric, now);
    tenant.metrics.set(metric, balance);
    if (tenant.isComplete) {
      noteHole(balance, metric, until, { invoices, firstAt: tenant.firstAt ?? until });
      balance.late += late;
      change(balance, balance.open - staying, now);
    }
    balance.marks = tenant.isComplete
      ? closeMarks(balance.marks, until, balance.open - staying)
      : [];
    balance.open = staying;
    balance.until = until;
  }
  for (const [id, { at, sums }] of tenant.counted) {
    if (invoices.some((invoice) => invoice.id === id)) continue;
    tenant.counted.delete(id);
    if (at < since) continue;
    for (const [metric, { nanos }] of sums) {
      const balance = tenant.metrics.get(metric);
      if (balance === undefined) continue;
      balance.invoiced -= nanos;
      change(balance, nanos, now);
    }
  }
  for (const invoice of invoices) count(tenant, invoice, now);
  if (tenant.until !== undefined) tenant.isComplete = true;
  for (const [metric, balance] of tenant.metrics) {
    closeUncovered(tenant, metric, balance, now);
    settle(balance);
  }
}

/** Closes usage that is too old for any invoice to come, and that none covers; where everything is known. */
function closeUncovered(
  { isComplete, open }: TenantBalances,
  metric: string,
  balance: Balance,
  now: number,
): void {
  const aged = isComplete
    ? agedMark(balance.marks, closedUntil(metric, now, open), now)
    : undefined;
  if (aged !== undefined) {
    balance.hole = { from: balance.until, to: aged.at };
    balance.open -= aged.before;
    change(balance, aged.before, now);
    balance.until = aged.at;
    balance.marks = closeMarks(balance.marks, aged.at, aged.before);
  }
  balance.marks = markAge(balance.marks, balance.open, now);
}

/** Billing systems that compute in doubles are right as far as doubles go. */
export function isMismatch({ missing, invoiced }: Balance): boolean {
  const difference = Math.abs(Number(missing));
  return difference > Math.max(1_000, 1e-9 * Math.abs(Number(invoiced)));
}

export function nanosOf(quantity: string): bigint {
  const decimal = parseSigned(quantity);
  return decimal === undefined ? 0n : nanosFromDecimal(decimal);
}

function newBalance(tenant: TenantBalances, metric: string, now: number): Balance {
  const closed = closedFor(tenant, metric);
  const sums = { open: 0n, marks: [], missing: 0n, late: 0n, invoiced: 0n };
  return { until: closed, ...sums, changedAt: now };
}

function closedUntil(metric: string, end: number, open: readonly OpenUsage[]): number {
  const own = open.filter((one) => one.metric === undefined || one.metric === metric);
  return Math.min(end, least(own.map(({ from }) => from)));
}

/**
 * A line is counted once all usage in its time is known to be closed: one invoice may have a line of the
 * period before and one of the period that runs.
 */
function count(tenant: TenantBalances, invoice: FinalInvoice, now: number): void {
  const { id, finalizedAt: at, lines, currency } = invoice;
  const sums = new Map(tenant.counted.get(id)?.sums);
  for (const [metric, all] of Map.groupBy(lines, (line) => line.metric)) {
    const balance = tenant.metrics.get(metric);
    if (balance?.until === undefined) continue;
    const { until } = balance;
    const before = sums.get(metric) ?? { nanos: 0n, to: Number.NEGATIVE_INFINITY };
    const own = all.filter(({ to }) => to > before.to && to <= until);
    if (own.length === 0) continue;
    const nanos = own
      .filter(({ to }) => to > (tenant.firstAt ?? 0))
      .reduce((sum, { quantity }) => sum + nanosOf(quantity), 0n);
    Object.assign(balance, priceOf(own, currency));
    const prices = pricesAtOnce(own);
    if (prices === undefined) delete balance.prices;
    else balance.prices = prices;
    // What was invoiced before everything was known is not compared.
    const counted = tenant.isComplete ? nanos : 0n;
    sums.set(metric, { nanos: before.nanos + counted, to: until });
    if (!tenant.isComplete) continue;
    balance.invoiced += nanos;
    change(balance, -nanos, now);
  }
  tenant.counted.set(id, { at, sums });
}

function priceOf(lines: readonly UsageLine[], currency = ''): Pick<Balance, 'price'> {
  const priced = lines.findLast(
    ({ amount, quantity }) => Number(quantity) !== 0 && Number(amount ?? 0) !== 0,
  );
  if (priced === undefined) return {};
  return { price: { each: Number(priced.amount) / Number(priced.quantity), currency } };
}

/** Lines of one stretch and quantity, as two prices make them that charge the same usage. */
function pricesAtOnce(lines: readonly UsageLine[]): readonly number[] | undefined {
  const alike = Map.groupBy(lines, ({ from, to, quantity, dimensions = {} }) =>
    JSON.stringify([from, to, quantity, dimensions]),
  );
  const twice = [...alike.values()].find(
    (group) => group.length > 1 && Number(group[0]?.quantity) !== 0,
  );
  return twice?.map(({ amount = '0', quantity }) => Number(amount) / Number(quantity));
}

/** Lines that begin later than those before them have ended leave out what is between them. */
function noteHole(
  balance: Balance,
  metric: string,
  until: number,
  { invoices, firstAt }: { readonly invoices: readonly FinalInvoice[]; readonly firstAt: number },
): void {
  const { until: before } = balance;
  const starts = invoices
    .flatMap(({ lines }) => lines)
    .filter((line) => line.metric === metric && line.to <= until && line.to > (before ?? 0))
    .map(({ from }) => from);
  const first = least(starts);
  if (!Number.isFinite(first) || first <= (before ?? firstAt)) return;
  balance.hole = { from: before, to: first };
}

function change(balance: Balance, nanos: bigint, now: number): void {
  if (nanos === 0n) return;
  balance.missing += nanos;
  balance.changedAt = now;
}

/** What doubles cannot tell from nothing is nothing, and does not add up over the years. */
function settle(balance: Balance): void {
  if (isMismatch(balance)) return;
  balance.missing = 0n;
  balance.late = 0n;
  delete balance.hole;
}
