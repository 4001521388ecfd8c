import * as fc from 'fast-check';
import { signedFromNanos } from '../../../model/decimal.ts';
import { SCHEMA_VERSION, type UsageEvent } from '../../../model/event.ts';

/** Includes values that no validated event has: a ledger stores any event. */
const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 12 }),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 6 }),
  fc.constantFrom(
    'null',
    '{}',
    '"',
    "'",
    '\\',
    'x":1,"quantity":9}',
    '\0',
    'a\0b',
    '\uD800',
    '{a,b}',
    'é',
  ),
);

const instant = fc
  .integer({ min: Date.UTC(2020, 0, 1) / 1_000, max: Date.UTC(2035, 0, 1) / 1_000 })
  .map((seconds) => `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`);

const recordedAt = fc
  .tuple(instant, fc.constantFrom('', '.2', '.250', '.000', '.123456789'))
  .map(([at, fraction]) => `${at.slice(0, -1)}${fraction}Z`);

const odd = fc.constantFrom('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z');

const quantity = fc
  .bigInt({ min: -(10n ** 24n), max: 10n ** 24n })
  .map((nanos) => signedFromNanos(nanos));

const names = fc.stringMatching(/^[a-z][a-z0-9_]{0,8}$/);

const REQUIRED = [
  'tenant',
  'metric',
  'quantity',
  'unit',
  'window_start',
  'window_end',
  'recorded_at',
] as const;

/** Any event that the types allow, without its id. */
export const anyEvent: fc.Arbitrary<Omit<UsageEvent, 'id'>> = fc
  .record(
    {
      tenant: text,
      metric: names,
      quantity,
      unit: text,
      window_start: fc.oneof({ weight: 9, arbitrary: instant }, { weight: 1, arbitrary: odd }),
      window_end: instant,
      recorded_at: recordedAt,
      region: text,
      project: text,
      sku: text,
      resource_id: text,
      source: text,
      dimensions: fc.dictionary(names, text, { maxKeys: 4, noNullPrototype: true }),
      properties: fc.dictionary(
        names,
        fc.oneof(text, fc.integer(), fc.constant(0.5), fc.boolean()),
        { maxKeys: 3, noNullPrototype: true },
      ),
    },
    { requiredKeys: [...REQUIRED] },
  )
  .map((fields) => ({ schema_version: SCHEMA_VERSION, ...fields }));
