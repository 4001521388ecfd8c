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

/** The fields by which the usage of a tenant is summed. */
export interface Series {
  readonly metric: string;
  readonly unit: string;
  readonly dimensions: Readonly<Record<string, string>>;
}

/** The part of a request's usage that belongs to one series. */
export interface EntryPart extends Series {
  /** {@link seriesOf} */
  readonly series: string;
  /** Billionths of the unit. */
  readonly nanos: bigint;
}

/** Text that two parts of a tenant share if, and only if, they belong to the same series. */
export function seriesOf({ metric, dimensions }: Pick<Series, 'metric' | 'dimensions'>): string {
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
    if (part.nanos === 0n) continue;
    const nanos = part.nanos + (bySeries.get(part.series)?.nanos ?? 0n);
    bySeries.set(part.series, { ...part, nanos });
  }
  return [...bySeries.values()].toSorted((a, b) => (a.series < b.series ? -1 : 1));
}

/** Whether two requests report the same usage. Their times and callers may differ. */
export function sameParts(a: readonly EntryPart[], b: readonly EntryPart[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ series, nanos }, index) => series === b[index]?.series && nanos === b[index].nanos)
  );
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
  const quantities = parts.map(({ metric, unit, dimensions, nanos }) => {
    return [metric, unit, dimensions, decimalFromNanos(nanos)];
  });
  return JSON.stringify([number, window.start, window.end, client, subject, tenant, quantities]);
}

/** Decodes a value of {@link encodeEntry}. The ledger has checked that it is undamaged. */
export function decodeEntry(value: string): RequestEntry {
  const [number, start, end, client, subject, tenant, quantities] = JSON.parse(value) as Stored;
  const parts = quantities.map(([metric, unit, dimensions, quantity]) => {
    return partIn({ metric, unit, dimensions }, quantity);
  });
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
  return partIn({ metric, unit, dimensions }, decimal);
}

function partIn(series: Series, quantity: Decimal): EntryPart {
  return { ...series, series: seriesOf(series), nanos: nanosFromDecimal(quantity) };
}
