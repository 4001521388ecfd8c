import type { FinalInvoice, OpenUsage, UsageLine } from '../../destinations/invoices.ts';
import { nanosFromDecimal, parseSigned } from '../../model/decimal.ts';
import { greatest, least } from '../../model/extremes.ts';
import { addToMarks, type AgeMark, agedMark, closeMarks, markAge } from './age-marks.ts';

/**
 * The balance of a tenant's metric: delivered usage against invoices
 * (docs/explanation/delivery.md#invoices). Sums are nano-units, times milliseconds since the epoch.
 */
export interface Balance {
  /** Usage before it is closed: finally invoiced, or never will be. Absent if none is closed. */
  until?: number;
  /** Delivered usage that begins at `until` or later. */
  open: bigint;
  /** The age of `open`. */
  marks: readonly AgeMark[];
  /** Delivered usage before `until` − invoiced usage. */
  missing: bigint;
  /** The part of `missing` that was delivered after its period was closed. */
  late: bigint;
  /** Usage on all compared invoices. */
  invoiced: bigint;
  /** Last change of `missing`. */
  changedAt: number;
  /** A period that the last invoice lines do not cover. `from`: absent without a known start. */
  hole?: { readonly from?: number; readonly to: number };
  /** Price of one unit on the last line with a price. */
  price?: { readonly each: number; readonly currency: string };
  /** Prices of one unit if several lines of the last invoice charge the same usage. */
  prices?: readonly number[];
}

/** A tenant's balances, and the invoices in them. */
export interface TenantBalances {
  /** Whether all usage delivered after the last closing is in the sums. */
  isComplete: boolean;
  /** Start of its earliest usage. Invoice lines that end before it are not compared. */
  firstAt?: number;
  /** End of invoiced usage, except for the usage in `open`. */
  until?: number;
  open: readonly OpenUsage[];
  readonly metrics: Map<string, Balance>;
  /** The invoice lines that are in the balances, by invoice id. */
  readonly counted: Map<
    string,
    {
      readonly at: number;
      /** By metric. */
      readonly sums: ReadonlyMap<string, CountedLines>;
    }
  >;
  /** The customer that pays its invoices, by the last answer of the billing system. */
  payer?: string;
}

export interface CountedLines {
  readonly nanos: bigint;
  /** Lines that end by then are included. Infinity: a release that counted all lines at once. */
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

/** Adds a delivered event. Usage that begins before `until` counts as late. */
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

/** Returns the new `until` of each metric whose invoices reach further than before. */
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

/** Returns the moment until which a metric's usage is closed; undefined if none is. */
export function closedFor({ metrics, until, open }: TenantBalances, metric: string) {
  const closed = metrics.get(metric)?.until;
  return closed ?? (until === undefined ? undefined : closedUntil(metric, until, open));
}

export interface ClosedMetric {
  readonly until: number;
  /** Delivered usage that begins at `until` or later. */
  readonly staying: bigint;
  /** Usage that begins earlier and was written after the invoice was final. */
  readonly late: bigint;
}

/**
 * Applies the invoices of a tenant. `since` is the start of the billing system's answer: a counted
 * invoice from then on that is missing in the answer is void. An incomplete tenant begins here, and
 * is compared from the next invoice on.
 */
export function applyInvoices(
  tenant: TenantBalances,
  answer: {
    readonly invoices: readonly FinalInvoice[];
    readonly open: readonly OpenUsage[];
    readonly since: number;
  },
  closing: ReadonlyMap<string, ClosedMetric>,
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

/** Closes usage without an invoice, too old for a coming one. Complete tenants only. */
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

/** Returns whether a balance differs by more than the rounding of doubles. */
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
  const ofMetric = open.filter((one) => one.metric === undefined || one.metric === metric);
  return Math.min(end, least(ofMetric.map(({ from }) => from)));
}

/**
 * Counts the lines of an invoice whose usage is closed. One invoice may have a line of the previous
 * period and one of the current period.
 */
function count(tenant: TenantBalances, invoice: FinalInvoice, now: number): void {
  const { id, finalizedAt: at, lines, currency } = invoice;
  const sums = new Map(tenant.counted.get(id)?.sums);
  for (const [metric, all] of Map.groupBy(lines, (line) => line.metric)) {
    const balance = tenant.metrics.get(metric);
    if (balance?.until === undefined) continue;
    const { until } = balance;
    const before = sums.get(metric) ?? { nanos: 0n, to: Number.NEGATIVE_INFINITY };
    const counting = all.filter(({ to }) => to > before.to && to <= until);
    if (counting.length === 0) continue;
    const nanos = counting
      .filter(({ to }) => to > (tenant.firstAt ?? 0))
      .reduce((sum, { quantity }) => sum + nanosOf(quantity), 0n);
    Object.assign(balance, priceOf(counting, currency));
    const prices = pricesAtOnce(counting);
    if (prices === undefined) delete balance.prices;
    else balance.prices = prices;
    // Lines of an incomplete tenant are not compared.
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

/** Returns unit prices of lines with equal period and quantity: they charge usage twice. */
function pricesAtOnce(lines: readonly UsageLine[]): readonly number[] | undefined {
  const alike = Map.groupBy(lines, ({ from, to, quantity, dimensions = {} }) =>
    JSON.stringify([from, to, quantity, dimensions]),
  );
  const twice = [...alike.values()].find(
    (group) => group.length > 1 && Number(group[0]?.quantity) !== 0,
  );
  return twice?.map(({ amount = '0', quantity }) => Number(amount) / Number(quantity));
}

/** Notes the period between earlier invoices and lines that begin later. No line covers it. */
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

/** Sets a rounding difference to zero, so that it does not add up over the years. */
function settle(balance: Balance): void {
  if (isMismatch(balance)) return;
  balance.missing = 0n;
  balance.late = 0n;
  delete balance.hole;
}
