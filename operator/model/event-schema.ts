import { SCHEMA_VERSION } from './event.ts';

/** Limits of an event (docs/reference/events.md#fields). */
export const EVENT_LIMITS = {
  tenantCharacters: 128,
  /** `unit`, `region`, `project`, `sku`, `resource_id`, `source` and dimension values. */
  textCharacters: 256,
  propertyCharacters: 1024,
  dimensions: 32,
  properties: 32,
  /** UTF-8 bytes of the encoded event. */
  encodedBytes: 16_384,
  /** One quantity: far above real ones, and small enough for every billing system. */
  quantity: 1e15,
} as const;

/** Dimensions with a fixed set of values (docs/reference/events.md#dimensions). */
export const CLOSED_DIMENSIONS = {
  capacity_type: ['on-demand', 'spot', 'preemptible', 'reserved'],
  billing_mode: ['shared', 'dedicated_node', 'private_node'],
} as const;

/**
 * Names that a dimension may not have. Billing systems put dimensions beside the event's own
 * fields, so such a name would overwrite a billed value there. The last three reach into
 * prototypes.
 */
export const RESERVED_KEYS = [
  'schema_version',
  'id',
  'tenant',
  'metric',
  'quantity',
  'value',
  'unit',
  'timestamp',
  'window_start',
  'window_end',
  'recorded_at',
  'region',
  'project',
  'sku',
  'resource_id',
  'source',
  'constructor',
  'prototype',
  '__proto__',
] as const;

/**
 * No control characters, line separators or halves of surrogate pairs: ids are hashed with NUL as
 * separator (docs/reference/events.md#ids).
 */
export const CLEAN_TEXT = '^[^\\p{Cc}\\p{Cs}\\u2028\\u2029]*$';
/** To the second, UTC, as in identities. */
export const INSTANT = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$';
/** UTC, with up to nine fraction digits of the second. */
export const INSTANT_WITH_FRACTION = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?Z$';

const text = {
  type: 'string',
  minLength: 1,
  maxLength: EVENT_LIMITS.textCharacters,
  pattern: CLEAN_TEXT,
} as const;

/**
 * The JSON Schema of a stored usage event (docs/reference/events.md#fields). `quantity` is exact
 * decimal text inside the service; its form is checked separately.
 */
export const EVENT_SCHEMA = {
  type: 'object',
  required: [
    'schema_version',
    'id',
    'tenant',
    'metric',
    'quantity',
    'unit',
    'window_start',
    'window_end',
    'recorded_at',
  ],
  properties: {
    schema_version: { const: SCHEMA_VERSION },
    id: { type: 'string', pattern: '^[A-Za-z0-9._:\\-]{1,100}$' },
    tenant: { ...text, maxLength: EVENT_LIMITS.tenantCharacters },
    metric: { type: 'string', pattern: '^[a-z][a-z0-9_]{0,99}$' },
    quantity: { type: 'string' },
    unit: text,
    window_start: { type: 'string', pattern: INSTANT },
    window_end: { type: 'string', pattern: INSTANT },
    recorded_at: { type: 'string', pattern: INSTANT_WITH_FRACTION },
    region: text,
    project: text,
    sku: text,
    resource_id: text,
    source: text,
    dimensions: {
      type: 'object',
      maxProperties: EVENT_LIMITS.dimensions,
      propertyNames: { pattern: '^[a-z][a-z0-9_]{0,63}$', not: { enum: RESERVED_KEYS } },
      properties: {
        capacity_type: { enum: CLOSED_DIMENSIONS.capacity_type },
        billing_mode: { enum: CLOSED_DIMENSIONS.billing_mode },
      },
      additionalProperties: text,
    },
    properties: {
      type: 'object',
      maxProperties: EVENT_LIMITS.properties,
      propertyNames: {
        pattern: '^[A-Za-z][A-Za-z0-9_.\\-]{0,63}$',
        not: { enum: ['constructor', 'prototype', '__proto__'] },
      },
      additionalProperties: {
        type: ['string', 'number', 'boolean'],
        maxLength: EVENT_LIMITS.propertyCharacters,
        pattern: CLEAN_TEXT,
      },
    },
  },
} as const;
