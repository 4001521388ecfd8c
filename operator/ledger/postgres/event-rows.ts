import { hash } from 'node:crypto';
import { decodeEvent, encodeEvent, SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { parseSigned } from '../../model/decimal.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { rememberLast } from '../../model/remember-last.ts';
import { instantText, timeOf } from './instants.ts';
import type { Row } from './session.ts';

/** What events of one kind of usage have in common; stored once. */
export interface Series {
  /** The names of the event's fields in the order of its text, divided by commas; without `quantity`. */
  readonly fields: string;
  readonly tenant: string;
  readonly metric: string;
  readonly unit: string;
  readonly region?: string;
  readonly project?: string;
  readonly sku?: string;
  readonly resource_id?: string;
  readonly source?: string;
  /** As JSON. */
  readonly dimensions?: string;
  /** The properties of its events that have none of their own, as JSON. They tell no series from another. */
  readonly properties?: string;
}

/** The rest of an event. Times are milliseconds since the epoch. */
export interface EventRow {
  /** 32 hexadecimal digits. */
  readonly id: string;
  readonly foreignId: string | undefined;
  readonly windowStart: number;
  readonly windowEnd: number;
  readonly recordedAt: number;
  readonly quantity: string;
  /** Whatever neither the columns nor the series say exactly. */
  readonly extra: Extra;
}

interface Extra {
  /** The whole text of an event that does not fit the columns in some way nobody has thought of. */
  readonly text?: string;
  readonly properties?: UsageEvent['properties'];
  readonly window_start?: string;
  readonly window_end?: string;
  readonly recorded_at?: string;
  readonly quantity?: string;
}

export interface SplitEvent {
  readonly series: Series;
  readonly row: EventRow;
}

const ID_HEX_DIGITS = 32;
const DERIVED_ID = new RegExp(`^${EVENT_ID_PREFIX}[0-9a-f]{${ID_HEX_DIGITS}}$`);

/** Whether an id is derived from the event (docs/events.md#ids), so that only days with its window can hold it. */
export function isDerived(id: string): boolean {
  return DERIVED_ID.test(id);
}

/** The 128 bits of a derived id, the beginning of the hash of any other, as hexadecimal digits. */
export function idDigits(id: string): string {
  if (isDerived(id)) return id.slice(EVENT_ID_PREFIX.length);
  return hash('sha256', id, 'hex').slice(0, ID_HEX_DIGITS);
}

/** An event as series and row. The row says everything that its series may say for it; see {@link storedRow}. */
export function splitEvent(event: UsageEvent): SplitEvent {
  const { dimensions, properties, region, project, sku, resource_id: resource, source } = event;
  const fields = Object.entries(event)
    .filter(([name, value]) => name !== 'quantity' && value !== undefined)
    .map(([name]) => name);
  const series: Series = {
    fields: fields.join(','),
    tenant: storable(event.tenant),
    metric: storable(event.metric),
    unit: storable(event.unit),
    ...omitUndefined({
      region: region && storable(region),
      project: project && storable(project),
      sku: sku && storable(sku),
      resource_id: resource && storable(resource),
      source: source && storable(source),
      dimensions: dimensions && JSON.stringify(dimensions),
    }),
  };
  const row = columnsOf(event);
  const extra = omitUndefined({
    properties,
    window_start: unless(event.window_start, instantText(row.windowStart)),
    window_end: unless(event.window_end, instantText(row.windowEnd)),
    recorded_at: unless(event.recorded_at, instantText(row.recordedAt)),
    quantity: unless(event.quantity, row.quantity),
  });
  return { series, row: { ...row, extra } };
}

const NO_EXTRA: Extra = {};

/** What the columns of a row can say of an event. */
export function columnsOf(event: UsageEvent): EventRow {
  const isOwn = isDerived(event.id);
  return {
    id: isOwn ? event.id.slice(EVENT_ID_PREFIX.length) : idDigits(event.id),
    foreignId: isOwn || event.id === '' ? undefined : storable(event.id),
    windowStart: timeOf(event.window_start),
    windowEnd: timeOf(event.window_end),
    recordedAt: timeOf(event.recorded_at),
    quantity: parseSigned(event.quantity) ?? '0',
    extra: NO_EXTRA,
  };
}

/**
 * The row that is stored beside a series, without the properties that are the series' own. What comes back from them is
 * compared with the event, so that nothing is stored that would not.
 */
export function storedRow(text: string, row: EventRow, series: Series): EventRow {
  const { properties, ...others } = row.extra;
  const isShared = properties !== undefined && JSON.stringify(properties) === series.properties;
  const stored = isShared ? { ...row, extra: others } : row;
  try {
    if (encodeEvent(joinEvent(series, stored)) === text) return stored;
  } catch {
    // Stored as text, too.
  }
  return { ...row, extra: { text } };
}

/** The event of a series and a row. */
export function joinEvent(series: Series, row: EventRow): UsageEvent {
  const { extra } = row;
  if (extra.text !== undefined) return decodeEvent(extra.text);
  const event: Record<string, unknown> = {};
  for (const name of series.fields.split(',')) event[name] = fieldOf(name, series, row);
  event['quantity'] = extra.quantity ?? row.quantity;
  // Compared with the original when it was stored, and with its checksum when it was read.
  return event as object as UsageEvent;
}

function fieldOf(name: string, series: Series, row: EventRow): unknown {
  switch (name) {
    case 'schema_version':
      return SCHEMA_VERSION;
    case 'id':
      return idOf(row);
    case 'window_start':
      return row.extra.window_start ?? instantText(row.windowStart);
    case 'window_end':
      return row.extra.window_end ?? instantText(row.windowEnd);
    case 'recorded_at':
      return row.extra.recorded_at ?? instantText(row.recordedAt);
    case 'properties':
      return row.extra.properties ?? (series.properties && propertiesOf(series.properties));
    case 'dimensions':
      return series.dimensions && dimensionsOf(series.dimensions);
    case 'tenant':
    case 'metric':
    case 'unit':
    case 'region':
    case 'project':
    case 'sku':
    case 'resource_id':
    case 'source':
      return series[name];
    default:
      throw new TypeError(`event: unknown field: "${name}"`);
  }
}

const dimensionsOf = rememberLast((text): UsageEvent['dimensions'] => JSON.parse(text));
const propertiesOf = rememberLast((text): UsageEvent['properties'] => JSON.parse(text));

/** The columns that {@link storedRowOf} reads. */
export const EVENT_COLUMNS =
  'seq, window_start, window_end, recorded_at, series, crc, id, quantity, foreign_id, extra';

/** What stands in `extra` and in `foreign_id` where there is nothing to say. Older rows have null, which takes eight bytes. */
const NO_EXTRA_TEXT = '{}';
const NO_FOREIGN_ID = '';

/** A row as it was read. */
export interface StoredRow extends EventRow {
  readonly sequence: number;
  readonly series: number;
  /** Of the event's text, signed. */
  readonly checksum: number;
}

/** The row in a result with {@link EVENT_COLUMNS}. */
export function storedRowOf(found: Row): StoredRow {
  return {
    sequence: Number(found['seq']),
    series: Number(found['series']),
    checksum: Number(found['crc']),
    id: (found['id'] ?? '').replaceAll('-', ''),
    foreignId: foreignIdOf(found['foreign_id'] ?? ''),
    windowStart: Number(found['window_start']),
    windowEnd: Number(found['window_end']),
    recordedAt: Number(found['recorded_at']),
    quantity: found['quantity'] ?? '',
    extra: extraOf(found['extra'] ?? ''),
  };
}

/** What a row's column `foreign_id` says; empty instead of null. */
export function foreignIdOf(text: string): string | undefined {
  return text === NO_FOREIGN_ID ? undefined : text;
}

/** What a row's column `extra` says; empty instead of null. What is not JSON makes no event. */
export function extraOf(text: string): Extra {
  if (text === '' || text === NO_EXTRA_TEXT) return NO_EXTRA;
  try {
    return JSON.parse(text);
  } catch {
    return { text: '' };
  }
}

/** Whether the columns and the series say everything. */
export function isPlain({ extra }: EventRow): boolean {
  return extra === NO_EXTRA;
}

/** What {@link textColumns} gives for most rows. */
export const NO_TEXT_COLUMNS = [NO_FOREIGN_ID, NO_EXTRA_TEXT] as const;

/** What stands in the columns `foreign_id` and `extra` of a row. */
export function textColumns({ foreignId, extra }: EventRow): readonly [string, string] {
  if (foreignId === undefined && extra === NO_EXTRA) return NO_TEXT_COLUMNS;
  return [foreignId ?? NO_FOREIGN_ID, extra === NO_EXTRA ? NO_EXTRA_TEXT : JSON.stringify(extra)];
}

/** The id of a row's event. */
export function idOf({ foreignId, id }: EventRow): string {
  return foreignId ?? EVENT_ID_PREFIX + id;
}

function unless(text: string, expected: string | undefined): string | undefined {
  return text === expected ? undefined : text;
}

/** PostgreSQL's text holds neither U+0000 nor halves of surrogate pairs. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\u{FFFD}');
}
