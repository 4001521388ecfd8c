import { sortedEntries } from '../model/bytewise.ts';
import type { CloudEventRule, TokenKind, TokenRule, ValuePath } from '../model/cloud-event-rule.ts';
import { TOKEN_KINDS } from '../model/cloud-event-rule.ts';
import { NumberText } from '../model/complete-event.ts';
import {
  decimalFromNanos,
  losesDigits,
  nanosFromDecimal,
  roundToDecimal,
} from '../model/decimal.ts';
import { CLEAN_TEXT, CLOSED_DIMENSIONS, EVENT_LIMITS } from '../model/event-schema.ts';
import { isRecord } from '../model/is-record.ts';
import { quote } from '../model/quote.ts';
import { pathText } from '../settings/parsers/value-path.ts';
import type { ReportedQuantity } from './reported-request.ts';

/** What a rule reads from the data of an event. */
export type MappedUsage =
  /** Without zero quantities: none are left for a request without tokens. */
  { readonly kind: 'usage'; readonly quantities: readonly ReportedQuantity[] } | RefusedMapping;

interface RefusedMapping {
  readonly kind: 'refused';
  /** `what: where: "input"` */
  readonly reason: string;
}

type Dimensions = Readonly<Record<string, string>>;
type Read<T> = { readonly kind: 'value'; readonly value: T } | RefusedMapping;

/** The metric of tokens. */
export const TOKENS = 'tenant_inference_tokens';
const REQUESTS = 'tenant_inference_requests';
const MAX_NANOS = BigInt(EVENT_LIMITS.quantity) * 1_000_000_000n;
const CLEAN = new RegExp(CLEAN_TEXT, 'u');
const CLOSED: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(CLOSED_DIMENSIONS));

/** The kinds of tokens by the names that gateways give them. */
const KINDS: ReadonlyMap<string, TokenKind> = new Map([
  ...TOKEN_KINDS.map((kind) => [kind, kind] as const),
  ['request', 'input'],
  ['system', 'input'],
  ['response', 'output'],
]);

/** The metrics that events of a rule fill. */
export function metricsOf({ tokens, metrics = [] }: CloudEventRule): readonly string[] {
  const counted = tokens?.count === undefined ? [TOKENS, REQUESTS] : [TOKENS];
  return [...(tokens === undefined ? [] : counted), ...metrics.map(({ metric }) => metric)];
}

/** Reads the quantities of an event by its rule. Never throws. */
export function readQuantities(
  { tokens, metrics = [] }: CloudEventRule,
  data: unknown,
): MappedUsage {
  const quantities: ReportedQuantity[] = [];
  if (tokens !== undefined) {
    const read = readTokens(tokens, data);
    if (read.kind === 'refused') return read;
    quantities.push(...read.value);
  }
  for (const { metric, value, dimensions } of metrics) {
    const nanos = value === undefined ? found(1_000_000_000n) : nanosAt(data, value);
    if (nanos.kind === 'refused') return nanos;
    const read = dimensionsAt(data, dimensions);
    if (read.kind === 'refused') return read;
    if (nanos.value > 0n) quantities.push(quantityOf(metric, read.value, nanos.value));
  }
  return { kind: 'usage', quantities };
}

/** The scalar at a path as text; undefined if there is none. */
export function textAt(data: unknown, path: ValuePath): string | undefined {
  const value = valueAt(data, path);
  if (value instanceof NumberText) return value.text;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}

function readTokens(rule: TokenRule, data: unknown): Read<readonly ReportedQuantity[]> {
  const counts = rule.count === undefined ? countsByKind(rule, data) : oneCount(rule, data);
  if (counts.kind === 'refused') return counts;
  const used = [...counts.value].filter(([, nanos]) => nanos > 0n);
  if (used.length === 0) return found([]);
  const dimensions = dimensionsAt(data, rule.dimensions);
  if (dimensions.kind === 'refused') return dimensions;
  const quantities = used.map(([kind, nanos]) =>
    quantityOf(TOKENS, { ...dimensions.value, token_type: kind }, nanos),
  );
  // An event for each kind does not show how many requests there are.
  if (rule.count !== undefined) return found(quantities);
  return found([...quantities, quantityOf(REQUESTS, dimensions.value, 1_000_000_000n)]);
}

/** The one count of an event that names its kind. */
function oneCount({ count = [], kind = [] }: TokenRule, data: unknown): Read<Counts> {
  const nanos = nanosAt(data, count);
  if (nanos.kind === 'refused') return nanos;
  const name = textAt(data, kind);
  const known = KINDS.get(name ?? '');
  if (known === undefined) return refused('not a kind of tokens', kind, name);
  return found(new Map([[known, nanos.value]]));
}

type Counts = ReadonlyMap<TokenKind, bigint>;

/** The disjoint counts of a request, in nano-units. Their sum is what the sender counted. */
function countsByKind(rule: TokenRule, data: unknown): Read<Counts> {
  const counts = { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, reasoning: 0n };
  for (const name of ['input', 'output', 'cacheRead', 'cacheWrite', 'reasoning'] as const) {
    const path = rule[name];
    const isDetail = name !== 'input' && name !== 'output';
    if (path === undefined || (isDetail && isAbsent(valueAt(data, path)))) continue;
    const nanos = nanosAt(data, path);
    if (nanos.kind === 'refused') return nanos;
    counts[name] = nanos.value;
  }
  const { cacheRead, cacheWrite, reasoning } = counts;
  const input = counts.input - (rule.inputIncludesCached === true ? cacheRead + cacheWrite : 0n);
  if (input < 0n) return refused('less than its cached tokens', rule.input, counts.input);
  const output = counts.output - (rule.outputIncludesReasoning === true ? reasoning : 0n);
  if (output < 0n) return refused('less than its reasoning', rule.output, counts.output);
  return found(
    new Map<TokenKind, bigint>([
      ['input', input],
      ['cache_read', cacheRead],
      ['cache_write', cacheWrite],
      ['output', output],
      ['reasoning', reasoning],
    ]),
  );
}

/** The number at a path, or its decimal text, in nano-units. */
function nanosAt(data: unknown, path: ValuePath): Read<bigint> {
  const value = valueAt(data, path);
  if (isAbsent(value)) return { kind: 'refused', reason: `missing: ${pathText(path)}` };
  const text = typeof value === 'boolean' ? undefined : textAt(data, path);
  const decimal = text === undefined ? undefined : roundToDecimal(text);
  if (text === undefined || decimal === undefined) {
    return refused('not a number of at least 0', path, value);
  }
  const nanos = nanosFromDecimal(decimal);
  if (nanos === 0n && losesDigits(text)) return refused('rounds to zero', path, text);
  if (nanos > MAX_NANOS) return refused(`larger than ${EVENT_LIMITS.quantity}`, path, text);
  return found(nanos);
}

function dimensionsAt(data: unknown, paths: Readonly<Record<string, ValuePath>>): Read<Dimensions> {
  const dimensions: Record<string, string> = {};
  for (const [key, path] of Object.entries(paths)) {
    const value = valueAt(data, path);
    if (isAbsent(value) || value === '') continue;
    const text = textAt(data, path);
    if (text === undefined) return refused('not a text', path, value);
    if (text.length > EVENT_LIMITS.textCharacters) {
      return refused(`longer than ${EVENT_LIMITS.textCharacters} characters`, path, text);
    }
    if (!CLEAN.test(text)) return refused('control characters', path, text);
    if (CLOSED.get(key)?.includes(text) === false) return refused(`no such ${key}`, path, text);
    dimensions[key] = text;
  }
  return found(dimensions);
}

/** The value at a path; undefined if there is none. */
function valueAt(data: unknown, path: ValuePath): unknown {
  let value = data;
  for (const step of path) {
    const isThere =
      typeof step === 'number'
        ? Array.isArray(value)
        : isRecord(value) && Object.hasOwn(value, step);
    if (!isThere) return undefined;
    value = (value as Readonly<Record<string | number, unknown>>)[step];
  }
  return value;
}

function quantityOf(metric: string, dimensions: Dimensions, nanos: bigint): ReportedQuantity {
  return {
    metric,
    dimensions: Object.fromEntries(sortedEntries(dimensions)),
    quantity: decimalFromNanos(nanos),
  };
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function found<T>(value: T): Read<T> {
  return { kind: 'value', value };
}

function refused(what: string, path: ValuePath = [], input: unknown): RefusedMapping {
  const shown = typeof input === 'bigint' ? decimalFromNanos(input) : input;
  const text = typeof shown === 'string' ? shown : (JSON.stringify(shown) ?? 'none');
  return { kind: 'refused', reason: `${what}: ${pathText(path)}: ${quote(text)}` };
}
