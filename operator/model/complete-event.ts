import { sortedEntries } from './bytewise.ts';
import { CORRECTION_ID_PREFIX } from './correction.ts';
import { type Decimal, losesDigits, roundToDecimal } from './decimal.ts';
import { deriveEventId, EVENT_ID_PREFIX, LATE_SUM_ID_PREFIX } from './event-id.ts';
import { SCHEMA_VERSION, type UsageEvent } from './event.ts';
import { isRecord } from './is-record.ts';
import { rememberLast } from './remember-last.ts';
import { eventProblem, quote } from './validate-event.ts';

/** A number's own text, for digits that a double cannot represent. */
export class NumberText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What the service adds to a pushed event. */
export interface Completion {
  /** RFC 3339, UTC. */
  readonly recordedAt: string;
  /** `ingest:<client>` */
  readonly source: string;
  readonly region: string;
  /** The unit of a metric of the catalogue; undefined for an unknown metric. */
  readonly unitOf: (metric: string) => string | undefined;
}

export type CompletedEvent =
  /** `rounded` has a message if the quantity differs from the sent one. */
  | { readonly kind: 'event'; readonly event: UsageEvent; readonly rounded?: string }
  | { readonly kind: 'invalid'; readonly id?: string; readonly problem: string };

type Draft = Omit<UsageEvent, 'id'> & { id: string };

const MAX_ID_CHARACTERS = 100;

/** A placeholder until the id is derived. */
const UNSET_ID = `${EVENT_ID_PREFIX}unset`;

const OPTIONAL_TEXTS = ['project', 'sku', 'resource_id'] as const;
const IDENTITY_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/;
/** `2026-11-21T09:00:00.000000000+00:00` */
const LONGEST_TIME = 35;
const DATE_TIME = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.0{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;

/**
 * Completes a pushed event (docs/reference/events.md#pushed-events). An id that looks derived must
 * be the derived one.
 * 1. It copies known fields and drops others and empty optional values.
 * 2. It converts times to UTC.
 * 3. It rounds the quantity to nine digits, and refuses it if nothing is left.
 * 4. It fills in `schema_version`, `unit`, `region` and `id` if they are absent.
 * 5. It sets `recorded_at` and `source`.
 */
export function completeEvent(input: unknown, completion: Completion): CompletedEvent {
  if (!isRecord(input)) return invalid(undefined, `not an object: event: ${quote(input)}`);
  const { id, metric } = input;
  if (typeof metric !== 'string') {
    return invalid(id, `not of type string: metric: ${quote(metric)}`);
  }
  const unit = completion.unitOf(metric);
  if (unit === undefined) {
    const fix = 'declare it in CUSTOM_METRICS or spec.customMetrics of the MeteringPolicy';
    return invalid(id, `unknown metric: ${quote(metric)}: ${fix}`);
  }
  const quantity = readQuantity(input['quantity']);
  if (quantity === undefined) {
    return invalid(id, `not a number of at least 0: quantity: ${quoteNumber(input['quantity'])}`);
  }
  const sent = numberText(input['quantity']) ?? '';
  const isRounded = losesDigits(sent);
  if (isRounded && quantity === '0') {
    return invalid(id, `rounds to zero: quantity: ${sent}: the smallest is 0.000000001`);
  }
  const draft = assemble(input, quantity, unit, completion);
  if (draft.id.startsWith?.(CORRECTION_ID_PREFIX)) {
    return invalid(id, `reserved for corrections: id: ${quote(id)}: choose another`);
  }
  if (draft.id.startsWith?.(LATE_SUM_ID_PREFIX)) {
    return invalid(id, `reserved for late sums: id: ${quote(id)}: choose another`);
  }
  const problem = eventProblem(draft);
  if (problem !== undefined) return invalid(id, problem);
  const derived = deriveEventId(draft);
  if (isAbsent(id)) draft.id = derived;
  if (!draft.id.startsWith(EVENT_ID_PREFIX) || draft.id === derived) {
    const rounded = `more than nine decimals: quantity: ${sent}: recorded as ${quantity}`;
    return { kind: 'event', event: draft, ...(isRounded && { rounded }) };
  }
  return invalid(id, `not the derived id: id: ${quote(id)}: leave it out or send ${derived}`);
}

/** Copies fields without validation: {@link eventProblem} shows if the result is an event. */
function assemble(
  input: Readonly<Record<string, unknown>>,
  quantity: Decimal,
  unit: string,
  fill: Completion,
): Draft {
  const draft: Record<string, unknown> = {
    schema_version: orDefault(input['schema_version'], SCHEMA_VERSION),
    id: orDefault(input['id'], UNSET_ID),
    tenant: input['tenant'],
    metric: input['metric'],
    quantity,
    unit: orDefault(input['unit'], unit),
    window_start: toUtc(input['window_start']),
    window_end: toUtc(input['window_end']),
    recorded_at: fill.recordedAt,
    region: orDefault(input['region'], fill.region),
  };
  for (const field of OPTIONAL_TEXTS) {
    if (!isAbsent(input[field])) draft[field] = input[field];
  }
  const dimensions = withoutEmpty(input['dimensions']);
  if (!isAbsent(dimensions)) draft['dimensions'] = dimensions;
  const properties = withPlainNumbers(input['properties']);
  if (!isAbsent(properties)) draft['properties'] = properties;
  draft['source'] = fill.source;
  return draft as object as Draft;
}

function invalid(id: unknown, problem: string): CompletedEvent {
  const quotable = typeof id === 'string' && id.length <= MAX_ID_CHARACTERS;
  return { kind: 'invalid', ...(quotable ? { id } : {}), problem };
}

function readQuantity(value: unknown): Decimal | undefined {
  const text = numberText(value);
  return text === undefined ? undefined : roundToDecimal(text);
}

function numberText(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return value instanceof NumberText ? value.text : undefined;
}

function quoteNumber(value: unknown): string {
  return quote(value instanceof NumberText ? value.text : value);
}

/** The time in the form that ids use. Anything else is unchanged, so that the schema refuses it. */
function toUtc(value: unknown): unknown {
  if (typeof value !== 'string' || value.length > LONGEST_TIME) return value;
  return spellInUtc(value);
}

const spellInUtc = rememberLast((value: string): string => {
  if (IDENTITY_TIME.test(value)) return value;
  const match = DATE_TIME.exec(value);
  if (match === null) return value;
  const [, date, time, zone = ''] = match;
  if (zone === 'Z' || zone === 'z' || zone === '+00:00') return `${date}T${time}Z`;
  const at = Date.parse(`${date}T${time}${zone}`);
  return Number.isFinite(at) ? `${new Date(at).toISOString().slice(0, 19)}Z` : value;
});

function withoutEmpty(dimensions: unknown): unknown {
  if (!isRecord(dimensions)) return dimensions;
  const stored = sortedEntries(dimensions).filter(([, value]) => !isAbsent(value));
  return stored.length === 0 ? undefined : Object.fromEntries(stored);
}

function withPlainNumbers(properties: unknown): unknown {
  if (!isRecord(properties)) return properties;
  const stored = Object.entries(properties).filter(([, value]) => value !== null);
  if (stored.length === 0) return undefined;
  return Object.fromEntries(
    stored.map(([key, value]) => [key, value instanceof NumberText ? Number(value.text) : value]),
  );
}

function orDefault(value: unknown, fallback: string): unknown {
  return isAbsent(value) ? fallback : value;
}

/** Empty values and nulls count as absent. */
function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}
