import type { RecordChange } from '../../ledger/ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import type { PriceCharge } from '../../model/price-book.ts';
import type { NamedLine } from './account.ts';
import { type BookContent, type BookRow, PrepaidBook } from './prepaid-book.ts';
import { countsOf, unitText } from './unit.ts';

/** Prefix of the record keys of {@link PrepaidBook}s. */
export const BOOK_PREFIX = 'budgets/used/';

type StoredRow = readonly [
  start: number,
  metric: string,
  unit: string,
  nanos: string,
  sku: string | null,
  region: string | null,
  dimensions: Readonly<Record<string, string>> | null,
];

type StoredCharge = readonly [
  kind: PriceCharge['kind'],
  included: string,
  beyond: string,
  tiers?: readonly (readonly [upTo: string, picos: string])[],
];

type StoredBookLine = readonly [name: string, charge: StoredCharge, before: string, used: string];

interface StoredPrepaidBook {
  readonly tenant: string;
  readonly unit: string;
  readonly since: number;
  readonly settled: string;
  readonly lines: readonly StoredBookLine[];
  readonly rows: readonly StoredRow[];
}

/** The ledger record of a book. */
export function bookRecord({ tenant, counts, content }: PrepaidBook): RecordChange {
  const unit = unitText({ counts });
  const { since, settled, lines, rows } = content;
  const book: StoredPrepaidBook = {
    tenant,
    unit,
    since,
    settled: `${settled}`,
    lines: lines.map(([name, { charge, before, used }]) => [
      name,
      storedCharge(charge),
      `${before}`,
      `${used}`,
    ]),
    rows: rows.map(({ usage, start, nanos }) => {
      const { metric, unit: counted, sku = null, region = null, dimensions = null } = usage;
      return [start, metric, counted, `${nanos}`, sku, region, dimensions];
    }),
  };
  return {
    key: `${BOOK_PREFIX}${encodeURIComponent(tenant)}/${unit}`,
    value: JSON.stringify(book),
  };
}

/** Parses a text of {@link bookRecord}; undefined when it is damaged. */
export function parseBook(text: string): PrepaidBook | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isBook(value)) return undefined;
    return new PrepaidBook(value.tenant, countsOf(value.unit), contentOf(value));
  } catch {
    return undefined;
  }
}

/** Only this module writes under the prefix, so a few fields show whether a record is intact. */
function isBook(value: unknown): value is StoredPrepaidBook {
  if (!isRecord(value)) return false;
  const { tenant, unit, since, settled, lines, rows } = value;
  const areTexts = [tenant, unit, settled].every((field) => typeof field === 'string');
  return areTexts && typeof since === 'number' && Array.isArray(lines) && Array.isArray(rows);
}

function contentOf({ since, settled, lines, rows }: StoredPrepaidBook): BookContent {
  return {
    since,
    settled: BigInt(settled),
    lines: lines.map(([name, charge, before, used]): NamedLine => {
      return [name, { charge: chargeOf(charge), before: BigInt(before), used: BigInt(used) }];
    }),
    rows: rows.map(([start, metric, unit, nanos, sku, region, dimensions]): BookRow => {
      const usage = {
        metric,
        unit,
        sku: sku ?? undefined,
        region: region ?? undefined,
        dimensions: dimensions ?? undefined,
      };
      return { usage, start, nanos: BigInt(nanos) };
    }),
  };
}

function storedCharge(charge: PriceCharge): StoredCharge {
  const included = `${charge.includedNanos}`;
  if (charge.kind === 'flat') return ['flat', included, `${charge.picos}`];
  const tiers = charge.tiers.map(({ upToNanos, picos }) => [`${upToNanos}`, `${picos}`] as const);
  return [charge.kind, included, `${charge.beyondPicos}`, tiers];
}

function chargeOf([kind, included, beyond, tiers = []]: StoredCharge): PriceCharge {
  const includedNanos = BigInt(included);
  if (kind === 'flat') return { kind, includedNanos, picos: BigInt(beyond) };
  return {
    kind,
    includedNanos,
    beyondPicos: BigInt(beyond),
    tiers: tiers.map(([upTo, picos]) => ({ upToNanos: BigInt(upTo), picos: BigInt(picos) })),
  };
}
