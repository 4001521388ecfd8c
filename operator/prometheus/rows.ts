import { type Decimal, scaleToDecimal } from '../model/decimal.ts';
import { quote } from '../model/validate-event.ts';
import type { Answer } from './measure.ts';
import type { Sample } from './query-answer.ts';

/** A row with a number that can be charged. */
export interface GoodRow {
  readonly labels: Sample['labels'];
  /** Its value × numerator ÷ denominator, rounded once. */
  readonly quantity: Decimal;
  /** The number's own text. */
  readonly value: string;
}

/**
 * Checks the rows of a result one by one (design 7, Utilisation): what is no finite number of at least
 * zero is refused with its reason, and so are several rows that `keyOf` cannot tell apart, none of them
 * being the right one.
 */
export function checkRows(
  rows: Answer['rows'],
  keyOf: (labels: Sample['labels']) => string,
  [numerator, denominator]: readonly [bigint, bigint],
): { readonly good: readonly GoodRow[]; readonly refused: readonly string[] } {
  const refused = rows.malformed.map((row) => `not a sample: row: ${quote(row)}`);
  const good: GoodRow[] = [];
  for (const same of Map.groupBy(rows.samples, ({ labels }) => keyOf(labels)).values()) {
    const [first] = same;
    if (first === undefined) continue;
    if (same.length > 1) {
      refused.push(`${same.length} rows that are told apart by nothing: row: ${rowText(first)}`);
      continue;
    }
    const { labels, value } = first;
    // A difference of doubles may be the zero below zero.
    const quantity = scaleToDecimal(value === '-0' ? '0' : value, numerator, denominator);
    if (quantity !== undefined) good.push({ labels, quantity, value });
    else
      refused.push(
        `not a finite number of at least 0: value: ${quote(value)} of ${rowText(first)}`,
      );
  }
  return { good, refused };
}

/** All labels of a row as one text. */
export function labelKey(labels: Sample['labels']): string {
  return JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function rowText({ labels }: Sample): string {
  return quote(labelKey(labels));
}
