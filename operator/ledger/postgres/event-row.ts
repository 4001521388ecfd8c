import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Decimal } from '../../model/decimal.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { decodeEvent, encodeEvent, SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { rememberLast } from '../../model/remember-last.ts';
import { sequenceSeed } from '../event-chain.ts';
import type { EncodedEvent } from '../writer.ts';
import { instantText, timeOf } from './instants.ts';
import type { DatabaseRow, Statement } from './session.ts';

/** The columns that are sent as text, with their types, in write order. */
const COLUMNS = [
  ['id', 'text'],
  ['tenant', 'text'],
  ['metric', 'text'],
  ['quantity', 'numeric'],
  ['unit', 'text'],
  ['window_start', 'timestamptz'],
  ['window_end', 'timestamptz'],
  ['recorded_at', 'timestamptz'],
  ['region', 'text'],
  ['project', 'text'],
  ['sku', 'text'],
  ['resource_id', 'text'],
  ['source', 'text'],
  ['dimensions', 'json'],
  ['properties', 'json'],
  ['original', 'text'],
] as const;

type Column = (typeof COLUMNS)[number][0];
type Columns = { readonly [Name in Column]: string | null };
type Changeable<T> = { -readonly [Key in keyof T]: T[Key] };

/** An event that was read, with its exact text. */
export interface ReadEvent extends EncodedEvent {
  readonly sequence: number;
}

const DERIVED_ID = new RegExp(`^${EVENT_ID_PREFIX}[0-9a-f]{32}$`);
const HASHED_ID_PREFIX = 'sha256:';
/** A PostgreSQL index accepts no value above a third of a page. */
const MAX_ID_BYTES = 1_000;
const QUANTITY = /^-?\d+(?:\.\d+)?$/;

/**
 * Whether an id is derived from the event (docs/reference/events.md#ids), so that its window limits
 * the weeks to search.
 */
export function isDerived(id: string): boolean {
  return DERIVED_ID.test(id);
}

/** The content of the column `id`: the id itself, or its hash if the column cannot contain it. */
export function storedId(id: string): string {
  const fits = storable(id) === id && Buffer.byteLength(id) <= MAX_ID_BYTES;
  if (fits && !id.startsWith(HASHED_ID_PREFIX)) return id;
  return HASHED_ID_PREFIX + hash('sha256', Buffer.from(id, 'utf16le'));
}

/** The statement that inserts consecutive events. */
export function insertEvents(
  schema: string,
  storedOn: string,
  firstSequence: number,
  events: readonly EncodedEvent[],
): Statement {
  const rows = events.map(columnsOf);
  const arrays = COLUMNS.map(([name]) => rows.map((row) => row[name]));
  const checksums = events.map(({ text }, index) => checksumOf(text, firstSequence + index));
  const names = COLUMNS.map(([name]) => name).join(', ');
  const types = COLUMNS.map(([, type], index) => `$${index + 4}::${type}[]`).join(', ');
  return {
    text: `insert into ${schema}.event (stored_on, seq, crc, ${names})
      select $1::date, $2::bigint + n - 1, crc, ${names}
      from unnest($3::integer[], ${types}) with ordinality as row (crc, ${names}, n)`,
    values: [storedOn, firstSequence, checksums, ...arrays],
    rows: events.length,
  };
}

/** The columns for {@link readRow}. */
export const EVENT_COLUMNS = `seq, crc, ${COLUMNS.map(([name, type]) =>
  type === 'timestamptz' ? `(date_part('epoch', ${name}) * 1000)::bigint as ${name}` : name,
).join(', ')}`;

/** Reads the event of a row with {@link EVENT_COLUMNS}; undefined if its checksum differs. */
export function readRow(row: DatabaseRow): ReadEvent | undefined {
  const sequence = Number(row['seq']);
  try {
    const { original } = row;
    const event = typeof original === 'string' ? decodeEvent(original) : eventOf(row);
    const text = original ?? encodeEvent(event);
    return checksumOf(text, sequence) === Number(row['crc'])
      ? { sequence, event, text }
      : undefined;
  } catch {
    return undefined;
  }
}

function checksumOf(text: string, sequence: number): number {
  return crc32(text, sequenceSeed(sequence)) | 0;
}

/** The columns of an event. `original` is set unless the other columns reproduce its exact text. */
function columnsOf({ event, text }: EncodedEvent): Columns {
  const { dimensions, properties } = event;
  const row: Changeable<Columns> = {
    id: storedId(event.id),
    tenant: storable(event.tenant),
    metric: storable(event.metric),
    quantity: QUANTITY.test(event.quantity) ? event.quantity : '0',
    unit: storable(event.unit),
    window_start: timeText(event.window_start),
    window_end: timeText(event.window_end),
    recorded_at: timeText(event.recorded_at),
    region: optional(event.region),
    project: optional(event.project),
    sku: optional(event.sku),
    resource_id: optional(event.resource_id),
    source: optional(event.source),
    dimensions: dimensions === undefined ? null : JSON.stringify(dimensions),
    properties: properties === undefined ? null : JSON.stringify(properties),
    original: null,
  };
  if (!gives(row, text)) row.original = text;
  return row;
}

/** Whether the columns reproduce the event's text. */
function gives(columns: Columns, text: string): boolean {
  const times = {
    window_start: String(timeOf(columns.window_start ?? '')),
    window_end: String(timeOf(columns.window_end ?? '')),
    recorded_at: String(timeOf(columns.recorded_at ?? '')),
  };
  return encodeEvent(eventOf({ ...columns, ...times })) === text;
}

type MutableEvent = { -readonly [Key in keyof UsageEvent]: UsageEvent[Key] };

/** A row's event without `original`. Its text is compared when stored, its checksum when read. */
function eventOf(row: DatabaseRow): UsageEvent {
  const { region, project, sku, resource_id: resource, source, dimensions, properties } = row;
  const event: MutableEvent = {
    schema_version: SCHEMA_VERSION,
    id: row['id'] ?? '',
    tenant: row['tenant'] ?? '',
    metric: row['metric'] ?? '',
    quantity: (row['quantity'] ?? '') as Decimal,
    unit: row['unit'] ?? '',
    window_start: instantText(Number(row['window_start'])),
    window_end: instantText(Number(row['window_end'])),
    recorded_at: instantText(Number(row['recorded_at'])),
  };
  if (typeof region === 'string') event.region = region;
  if (typeof project === 'string') event.project = project;
  if (typeof sku === 'string') event.sku = sku;
  if (typeof resource === 'string') event.resource_id = resource;
  if (typeof source === 'string') event.source = source;
  if (typeof dimensions === 'string') event.dimensions = dimensionsOf(dimensions);
  if (typeof properties === 'string') event.properties = propertiesOf(properties);
  return event;
}

const dimensionsOf = rememberLast(
  (text): NonNullable<UsageEvent['dimensions']> => JSON.parse(text),
);
const propertiesOf = rememberLast(
  (text): NonNullable<UsageEvent['properties']> => JSON.parse(text),
);

const timeText = rememberLast((text): string => new Date(timeOf(text)).toISOString());

function optional(text: string | undefined): string | null {
  return text === undefined ? null : storable(text);
}

/** Replaces what PostgreSQL's text cannot contain: U+0000 and unpaired surrogates. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\u{FFFD}');
}
