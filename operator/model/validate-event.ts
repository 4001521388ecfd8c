import { Ajv, type ErrorObject } from 'ajv';
import { nanosFromDecimal, parseDecimal } from './decimal.ts';
import {
  CLEAN_TEXT,
  EVENT_LIMITS,
  EVENT_SCHEMA,
  INSTANT,
  INSTANT_WITH_FRACTION,
} from './event-schema.ts';
import { encodeEvent, type UsageEvent } from './event.ts';
import { formatInstant } from './window.ts';

const MAX_QUANTITY_NANOS = BigInt(EVENT_LIMITS.quantity) * 1_000_000_000n;
const QUOTED_CHARACTERS = 64;

/** A text this long cannot be above the limit. */
const SURELY_SMALL_DIGITS = 15;

/** Days up to the 28th exist in every month. */
const ALWAYS_REAL =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/;

/** A UTF-16 unit takes at most three bytes of UTF-8; quotes and backslashes take two. */
const MOST_BYTES_PER_UNIT = 3;
/**
 * All fields except dimensions and properties: six texts of 256 characters, the tenant, and the
 * remainder.
 */
const MOST_BYTES_OF_FIELDS = 6 * 256 * 4 + 128 * 4 + 800;
/** A key with its punctuation. */
const LONGEST_KEY = 70;
const LONGEST_NUMBER = 25;

/** Verbose, so that an error has the refused value. */
const validateShape = new Ajv({ verbose: true, allowUnionTypes: true }).compile(EVENT_SCHEMA);

/**
 * The problem of an event, as `what: where: "input"`; undefined if it may enter the ledger. The
 * rules are in docs/reference/events.md#fields. It does not check whether the metric is known or
 * the window is acceptable today.
 */
export function eventProblem(event: UsageEvent): string | undefined {
  if (!validateShape(event)) return describe(validateShape.errors?.[0]);
  return quantityProblem(event.quantity) ?? windowProblem(event) ?? sizeProblem(event);
}

/** A value as an error text quotes it: shortened JSON, so that control characters are visible. */
export function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  if (text.length <= QUOTED_CHARACTERS) return text;
  return `${text.slice(0, QUOTED_CHARACTERS).toWellFormed()}…`;
}

function quantityProblem(quantity: string): string | undefined {
  const decimal = parseDecimal(quantity);
  if (decimal !== quantity) return `not a plain decimal number: quantity: ${quote(quantity)}`;
  if (quantity.length <= SURELY_SMALL_DIGITS) return undefined;
  if (nanosFromDecimal(decimal) <= MAX_QUANTITY_NANOS) return undefined;
  return `larger than ${EVENT_LIMITS.quantity}: quantity: ${quote(quantity)}`;
}

function windowProblem(event: UsageEvent): string | undefined {
  for (const field of ['window_start', 'window_end'] as const) {
    if (!isRealInstant(event[field])) {
      return `no such date and time: ${field}: ${quote(event[field])}`;
    }
  }
  if (event.window_start < event.window_end) return undefined;
  return `not after window_start ${quote(event.window_start)}: window_end: ${quote(event.window_end)}`;
}

/**
 * Whether a text of the right form is an existing day and time. Only days after the 28th differ by
 * month.
 */
function isRealInstant(instant: string): boolean {
  if (ALWAYS_REAL.test(instant)) return true;
  const at = Date.parse(instant);
  return Number.isFinite(at) && formatInstant(at) === instant;
}

function sizeProblem(event: UsageEvent): string | undefined {
  if (!mayBeLarge(event)) return undefined;
  const bytes = Buffer.byteLength(encodeEvent(event));
  if (bytes <= EVENT_LIMITS.encodedBytes) return undefined;
  return `larger than ${EVENT_LIMITS.encodedBytes} bytes: event: ${bytes} bytes`;
}

/** Avoids encoding most events: computes an upper bound of the size from the schema's limits. */
function mayBeLarge({ dimensions = {}, properties = {} }: UsageEvent): boolean {
  let characters = 0;
  for (const value of [...Object.values(dimensions), ...Object.values(properties)]) {
    characters += LONGEST_KEY + (typeof value === 'string' ? value.length : LONGEST_NUMBER);
  }
  return MOST_BYTES_OF_FIELDS + characters * MOST_BYTES_PER_UNIT > EVENT_LIMITS.encodedBytes;
}

function describe(error: ErrorObject | undefined): string {
  if (error === undefined) return 'not a usage event: event: "?"';
  const where = error.instancePath.slice(1).replaceAll('/', '.') || 'event';
  const what = WHAT[error.keyword]?.(error) ?? error.message ?? error.keyword;
  if (error.propertyName !== undefined) return `${what}: ${where}: ${quote(error.propertyName)}`;
  if (error.keyword === 'required') return what;
  return `${what}: ${where}: ${quote(error.data)}`;
}

const WHAT: Readonly<Record<string, (error: ErrorObject) => string>> = {
  type: (error) => `not of type ${[error.params['type']].flat().join(' or ')}`,
  const: (error) => `not ${quote(error.params['allowedValue'])}`,
  enum: (error) => `not one of ${(error.params['allowedValues'] as string[]).join(', ')}`,
  required: (error) => `missing: ${error.params['missingProperty']}: give a value`,
  minLength: () => 'empty',
  maxLength: (error) => `longer than ${error.params['limit']} characters`,
  maxProperties: (error) => `more than ${error.params['limit']} keys`,
  not: () => 'reserved name',
  propertyNames: () => 'not a usable key',
  pattern: ({ schema }) => BY_PATTERN.get(String(schema)) ?? `does not match ${String(schema)}`,
};

/** The problem of a text, by the pattern that it does not match. */
const BY_PATTERN: ReadonlyMap<string, string> = new Map([
  [CLEAN_TEXT, 'control characters'],
  [INSTANT, 'not a UTC time to the second such as 2026-11-21T09:00:00Z'],
  [INSTANT_WITH_FRACTION, 'not a UTC time such as 2026-11-21T09:00:00.123Z'],
]);
