import { type Decimal, scaleToDecimal } from '../model/decimal.ts';
import { isRecord } from '../model/is-record.ts';
import { parseJson } from '../model/parse-json.ts';
import { quote } from '../model/validate-event.ts';

/** One row of an instant vector. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  /** The number's text as the server wrote it: `1.5e+09`, `NaN`, `+Inf`. */
  readonly value: string;
}

/** The rows of a result. */
export interface Vector {
  readonly kind: 'vector';
  readonly samples: readonly Sample[];
  /** Descriptions of rows that are no samples. */
  readonly malformed: readonly string[];
}

/**
 * The result of a query. `server`: the server answers no query at present. `query`: only this query
 * fails.
 */
export type QueryOutcome =
  | Vector
  | { readonly kind: 'failed'; readonly cause: 'server' | 'query'; readonly reason: string };

/** More rows mean a query without the aggregation that it needs. */
const MOST_ROWS = 10_000;
const LONGEST_REASON = 300;

/** Errors of the query itself. All other errors can affect any query. */
const QUERY_ERRORS: ReadonlySet<unknown> = new Set([
  'bad_data',
  'execution',
  'timeout',
  'canceled',
]);
/** Bad request, too large, too long, cannot be executed. */
const QUERY_STATUSES: ReadonlySet<number> = new Set([400, 413, 414, 422]);

/** Remarks that do not change the result. Older servers list them among the warnings. */
const REMARK = /^PromQL info:/;

/**
 * Reads the answer of `/api/v1/query`. Warnings and partial results are failures, because a sum
 * without some of its series must not be billed as complete.
 */
export function readAnswer(status: number, body: string): QueryOutcome {
  const answer = parseJson(body);
  if (!isRecord(answer) || (answer['status'] !== 'success' && answer['status'] !== 'error')) {
    const cause = QUERY_STATUSES.has(status) ? 'query' : 'server';
    return failed(cause, status < 300 ? 'the answer is not one of a Prometheus API' : at(status));
  }
  if (status >= 300 || answer['status'] === 'error') {
    const { errorType, error } = answer;
    const cause = QUERY_ERRORS.has(errorType) || QUERY_STATUSES.has(status) ? 'query' : 'server';
    return failed(cause, `${at(status)}: ${shown(errorType)}: ${shown(error)}`);
  }
  const warnings = [answer['warnings'] ?? []].flat().map(shown);
  const warning = warnings.find((text) => !REMARK.test(text));
  if (warning !== undefined) return failed('query', `partial answer: ${warning}`);
  if (answer['isPartial'] === true) return failed('query', 'partial answer');
  return readData(answer['data']);
}

function readData(data: unknown): QueryOutcome {
  if (!isRecord(data)) return failed('query', 'the answer has no data');
  const { resultType, result } = data;
  if (resultType === 'scalar') return vector([{ metric: {}, value: result }]);
  if (resultType !== 'vector' || !Array.isArray(result)) {
    return failed('query', `the result is a ${shown(resultType)}; the query must give a vector`);
  }
  if (result.length > MOST_ROWS) {
    return failed('query', `the result has ${result.length} rows; at most ${MOST_ROWS}`);
  }
  return vector(result);
}

function vector(rows: readonly unknown[]): QueryOutcome {
  const samples: Sample[] = [];
  const malformed: string[] = [];
  for (const row of rows) {
    const sample = readSample(row);
    if (sample === undefined) malformed.push(shown(JSON.stringify(row)));
    else samples.push(sample);
  }
  return { kind: 'vector', samples, malformed };
}

function readSample(row: unknown): Sample | undefined {
  if (!isRecord(row)) return undefined;
  const { metric, value } = row;
  if (!isRecord(metric) || !Array.isArray(value) || typeof value[1] !== 'string') return undefined;
  const labels = Object.entries(metric);
  if (!labels.every((label): label is [string, string] => typeof label[1] === 'string')) {
    return undefined;
  }
  return { labels: Object.fromEntries(labels), value: value[1] };
}

function at(status: number): string {
  return status < 400 && status >= 300
    ? `status ${status}: redirects are not followed`
    : `status ${status}`;
}

function failed(cause: 'server' | 'query', reason: string): QueryOutcome {
  return { kind: 'failed', cause, reason };
}

/** A server's text on one line, shortened. */
function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
  const line = text.toWellFormed().replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ');
  return line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}…` : line;
}

/** A row with a number that can be charged. */
interface GoodRow {
  readonly labels: Sample['labels'];
  /** Its value × numerator ÷ denominator, rounded once. */
  readonly quantity: Decimal;
  /** The number's own text. */
  readonly value: string;
}

/**
 * Checks the rows of a result one by one (docs/explanation/prometheus.md#gpu-utilisation). It
 * refuses two kinds of rows with a reason:
 * 1. A value that is not a finite number of at least zero.
 * 2. Several rows with the same `keyOf`: none of them is known to be right.
 */
export function checkRows(
  rows: Vector,
  keyOf: (labels: Sample['labels']) => string,
  [numerator, denominator]: readonly [bigint, bigint],
): { readonly good: readonly GoodRow[]; readonly refused: readonly string[] } {
  const refused = rows.malformed.map((row) => `not a sample: row: ${quote(row)}`);
  const good: GoodRow[] = [];
  for (const same of Map.groupBy(rows.samples, ({ labels }) => keyOf(labels)).values()) {
    const [first] = same;
    if (first === undefined) continue;
    if (same.length > 1) {
      refused.push(`${same.length} rows with the same sku and dimensions: row: ${rowText(first)}`);
      continue;
    }
    const { labels, value } = first;
    // A difference of doubles may be negative zero.
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

/** A sample's value as a double. */
export function numberOf(value: Sample['value']): number {
  return Number(value.replace(/Inf$/, 'Infinity'));
}
