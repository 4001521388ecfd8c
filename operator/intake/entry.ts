import { sortedEntries } from '../model/bytewise.ts';
import {
  type Decimal,
  decimalFromNanos,
  nanosFromDecimal,
  parseDecimal,
} from '../model/decimal.ts';
import { quote } from '../model/validate-event.ts';
import type { Window } from '../model/window.ts';
import type { ReportedQuantity, ReportedRequest } from './reported-request.ts';

/** An accepted request, as it is stored until its hour is dropped. */
export interface RequestEntry {
  /** Accepted requests are numbered: a closing takes all up to a number, its cut. */
  readonly number: number;
  readonly window: Window;
  /** Name of the token that sent it. */
  readonly client: string;
  /** The caller as the sender names it. */
  readonly subject: string;
  readonly tenant: string;
  /** Ordered by series; each series once; no zeros. */
  readonly parts: readonly EntryPart[];
}

/** The part of a request's usage that belongs to one series. */
export interface EntryPart {
  readonly metric: string;
  readonly unit: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly quantity: Decimal;
}

/** Text that two parts of a tenant share if, and only if, they belong to the same series. */
export function seriesOf({ metric, dimensions }: Pick<EntryPart, 'metric' | 'dimensions'>): string {
  return JSON.stringify([metric, ...sortedEntries(dimensions)]);
}

/**
 * The parts of a request in the form of {@link RequestEntry}, or the problem of one of its
 * quantities. `unitOf` returns undefined for an unknown metric.
 */
export function partsOf(
  { quantities }: Pick<ReportedRequest, 'quantities'>,
  unitOf: (metric: string) => string | undefined,
): readonly EntryPart[] | string {
  const bySeries = new Map<string, EntryPart>();
  for (const one of quantities) {
    const part = partOf(one, unitOf);
    if (typeof part === 'string') return part;
    if (part.quantity === '0') continue;
    const series = seriesOf(part);
    const other = bySeries.get(series);
    bySeries.set(series, other === undefined ? part : added(part, other.quantity));
  }
  return [...bySeries].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, part]) => part);
}

/** Whether two requests report the same usage. Their times and callers may differ. */
export function sameParts(a: readonly EntryPart[], b: readonly EntryPart[]): boolean {
  const textOf = (part: EntryPart): string => `${seriesOf(part)} ${part.quantity}`;
  return a.length === b.length && a.map(textOf).join('\n') === b.map(textOf).join('\n');
}

/** The value of an entry's record: one line of JSON, an array to save space. */
export function encodeEntry({
  number,
  window,
  client,
  subject,
  tenant,
  parts,
}: RequestEntry): string {
  const quantities = parts.map((part) => [part.metric, part.unit, part.dimensions, part.quantity]);
  return JSON.stringify([number, window.start, window.end, client, subject, tenant, quantities]);
}

/** Decodes a value of {@link encodeEntry}. The ledger has checked that it is undamaged. */
export function decodeEntry(value: string): RequestEntry {
  const [number, start, end, client, subject, tenant, quantities] = JSON.parse(value) as Stored;
  const parts = quantities.map(([metric, unit, dimensions, quantity]) => ({
    metric,
    unit,
    dimensions,
    quantity,
  }));
  return { number, window: { start, end }, client, subject, tenant, parts };
}

type Stored = [
  number: number,
  start: number,
  end: number,
  client: string,
  subject: string,
  tenant: string,
  quantities: [
    metric: string,
    unit: string,
    dimensions: Readonly<Record<string, string>>,
    quantity: Decimal,
  ][],
];

function partOf(
  { metric, dimensions, quantity }: ReportedQuantity,
  unitOf: (metric: string) => string | undefined,
): EntryPart | string {
  const unit = unitOf(metric);
  if (unit === undefined)
    return `unknown metric: ${quote(metric)}: name one of GET /api/v1/catalog`;
  const decimal = parseDecimal(quantity);
  if (decimal === undefined) {
    return `not a plain decimal of at least 0: quantity of ${metric}: ${quote(quantity)}`;
  }
  return { metric, unit, dimensions, quantity: decimal };
}

function added(part: EntryPart, quantity: Decimal): EntryPart {
  const sum = nanosFromDecimal(part.quantity) + nanosFromDecimal(quantity);
  return { ...part, quantity: decimalFromNanos(sum) };
}
