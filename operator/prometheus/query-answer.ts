/** One row of an instant vector. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  /** The number's text as the server wrote it: `1.5e+09`, `NaN`, `+Inf`. */
  readonly value: string;
}

/**
 * What a query came to. `server`: nothing can be had from the server at present, whatever is asked;
 * `query`: this query cannot be answered, others may be.
 */
export type QueryOutcome =
  | {
      readonly kind: 'vector';
      readonly samples: readonly Sample[];
      /** Rows that are no samples, in words. */
      readonly malformed: readonly string[];
    }
  | { readonly kind: 'failed'; readonly cause: 'server' | 'query'; readonly reason: string };

/** More rows than this are a query without the aggregation it needs, not a bill. */
const MOST_ROWS = 10_000;
const LONGEST_REASON = 300;

/** Errors of the query itself; all others may befall any query. */
const QUERY_ERRORS: ReadonlySet<unknown> = new Set([
  'bad_data',
  'execution',
  'timeout',
  'canceled',
]);
/** Bad request, too large, too long, cannot be executed. */
const QUERY_STATUSES: ReadonlySet<number> = new Set([400, 413, 414, 422]);

/** Remarks on a query that change nothing about its result; older servers list them among the warnings. */
const REMARK = /^PromQL info:/;

/**
 * Reads the answer of `/api/v1/query`. Warnings, and what says of itself that it is partial, are
 * failures: a sum that lacks a part of its series must not be billed as if it were whole.
 */
export function readAnswer(status: number, body: string): QueryOutcome {
  const answer = parse(body);
  if (answer === undefined || (answer['status'] !== 'success' && answer['status'] !== 'error')) {
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

function parse(body: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function at(status: number): string {
  return status < 400 && status >= 300
    ? `status ${status}: redirects are not followed`
    : `status ${status}`;
}

function failed(cause: 'server' | 'query', reason: string): QueryOutcome {
  return { kind: 'failed', cause, reason };
}

/** What the other side said, on one line and not too long. */
function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
  const line = text.toWellFormed().replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ');
  return line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}…` : line;
}
