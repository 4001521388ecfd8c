import { SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { type EventRow, idOf, type Series } from './event-rows.ts';
import { instantText } from './instants.ts';

/** What a row says of its event; everything else is the same for all events of a series. */
const OWN_FIELDS = ['id', 'window_start', 'window_end', 'recorded_at'] as const;
type OwnField = (typeof OWN_FIELDS)[number];

/** How the events of a series look, so that those whose rows have no `extra` are put together at little cost. */
export interface EventTemplate {
  /** The text of a row's event, as `encodeEvent` gives it. */
  textOf(row: EventRow): string;
  /** The event of a row. What it shares with others is frozen. */
  eventOf(row: EventRow): UsageEvent;
}

/** Undefined where the events of a series are not all alike but for what a row says. */
export function createTemplate(series: Series): EventTemplate | undefined {
  const pieces: string[] = [];
  const slots: OwnField[] = [];
  const fields: Record<string, unknown> = {};
  let piece = '{';
  for (const name of series.fields.split(',')) {
    const own = OWN_FIELDS.find((field) => field === name);
    const value = own === undefined ? sharedField(name, series) : '';
    if (value === undefined) return undefined;
    piece += `${piece === '{' ? '' : ','}${JSON.stringify(name)}:`;
    fields[name] = value;
    if (own === undefined) piece += JSON.stringify(value);
    else {
      pieces.push(piece);
      slots.push(own);
      piece = '';
    }
  }
  if (OWN_FIELDS.some((name) => !slots.includes(name))) return undefined;
  pieces.push(`${piece},"quantity":`);
  fields['quantity'] = '';
  // Has every field of an event, in the order of its text.
  return new Template(pieces, slots, fields as object as UsageEvent);
}

class Template implements EventTemplate {
  readonly #pieces: readonly string[];
  readonly #slots: readonly OwnField[];
  readonly #event: UsageEvent;

  constructor(pieces: readonly string[], slots: readonly OwnField[], event: UsageEvent) {
    this.#pieces = pieces;
    this.#slots = slots;
    this.#event = event;
  }

  textOf(row: EventRow): string {
    let text = '';
    for (let index = 0; index < this.#slots.length; index++) {
      text += this.#pieces[index];
      text += ownText(this.#slots[index], row);
    }
    return `${text}${this.#pieces[this.#slots.length]}${row.quantity}}`;
  }

  eventOf(row: EventRow): UsageEvent {
    return {
      ...this.#event,
      id: idOf(row),
      window_start: instantText(row.windowStart),
      window_end: instantText(row.windowEnd),
      recorded_at: instantText(row.recordedAt),
      // Written by `storedRow` from a quantity, and compared with its checksum when it was read.
      quantity: row.quantity as UsageEvent['quantity'],
    };
  }
}

/** As JSON. */
function ownText(field: OwnField | undefined, row: EventRow): string {
  switch (field) {
    case 'id':
      return row.foreignId === undefined
        ? `"${EVENT_ID_PREFIX}${row.id}"`
        : JSON.stringify(row.foreignId);
    case 'window_start':
      return `"${instantText(row.windowStart)}"`;
    case 'window_end':
      return `"${instantText(row.windowEnd)}"`;
    case 'recorded_at':
      return `"${instantText(row.recordedAt)}"`;
    default:
      return '';
  }
}

/** The value of a field that all events of a series share; undefined where they do not. */
function sharedField(name: string, series: Series): unknown {
  switch (name) {
    case 'schema_version':
      return SCHEMA_VERSION;
    case 'properties':
    case 'dimensions':
      return frozen(series[name]);
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
      return undefined;
  }
}

function frozen(text: string | undefined): unknown {
  return text === undefined ? undefined : Object.freeze(JSON.parse(text));
}
