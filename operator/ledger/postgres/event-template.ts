import { crc32 } from 'node:zlib';
import { SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { type EventRow, idOf, type Series } from './event-rows.ts';
import { instantText } from './instants.ts';
import { behindPart, behindText, type KnownPart, knownPart } from './known-parts.ts';

/** What a row says of its event; everything else is the same for all events of a series. */
const OWN_TEXTS = ['id', 'window_start', 'window_end', 'recorded_at'] as const;
/** The quantity is no text, and stands last. */
type OwnField = (typeof OWN_TEXTS)[number] | 'quantity';

/** How the events of a series look, so that those whose rows have no `extra` are put together at little cost. */
export interface EventTemplate {
  /** The text of a row's event, as `encodeEvent` gives it. */
  textOf(row: EventRow): string;
  /** Whether that is the text. */
  makes(row: EventRow, text: string): boolean;
  /** The CRC-32 of that text, started from `seed`; signed. */
  checksumOf(row: EventRow, seed: number): number;
  /** The event of a row. What it shares with others is frozen. */
  eventOf(row: EventRow): UsageEvent;
}

/** A field that is the row's own, and what stands between the one before it and its value. */
interface Slot {
  readonly before: string;
  readonly field: OwnField;
}

/** Undefined where the events of a series are not all alike but for what a row says. */
export function createTemplate(series: Series): EventTemplate | undefined {
  const slots: Slot[] = [];
  const fields: Record<string, unknown> = {};
  let before = '{';
  let isFirst = true;
  for (const name of series.fields.split(',')) {
    const own = OWN_TEXTS.find((field) => field === name);
    const value = own === undefined ? sharedField(name, series) : '';
    if (value === undefined) return undefined;
    before += `${isFirst ? '' : ','}${JSON.stringify(name)}:`;
    isFirst = false;
    fields[name] = value;
    if (own === undefined) before += JSON.stringify(value);
    else {
      slots.push({ before: `${before}"`, field: own });
      before = '"';
    }
  }
  if (OWN_TEXTS.some((name) => !slots.some(({ field }) => field === name))) return undefined;
  slots.push({ before: `${before},"quantity":`, field: 'quantity' });
  fields['quantity'] = '';
  // Has every field of an event, in the order of its text.
  return new Template(slots, fields as object as UsageEvent);
}

const END = '}';
const END_PART = knownPart(END);

class Template implements EventTemplate {
  readonly #slots: readonly Slot[];
  readonly #event: UsageEvent;
  /** What stands before each slot where the id is derived; made when events are read. */
  #parts: readonly (readonly [before: KnownPart, field: OwnField])[] | undefined;

  constructor(slots: readonly Slot[], event: UsageEvent) {
    this.#slots = slots;
    this.#event = event;
  }

  textOf(row: EventRow): string {
    let text = '';
    for (const { before, field } of this.#slots) {
      text += before;
      text += field === 'id' ? idText(row) : ownText(field, row);
    }
    return text + END;
  }

  makes(row: EventRow, text: string): boolean {
    let at = 0;
    for (const { before, field } of this.#slots) {
      const own = field === 'id' ? idText(row) : ownText(field, row);
      const ownAt = at + before.length;
      if (text.slice(at, ownAt) !== before) return false;
      at = ownAt + own.length;
      if (text.slice(ownAt, at) !== own) return false;
    }
    return text.slice(at) === END;
  }

  checksumOf(row: EventRow, seed: number): number {
    // Only there can be characters that are more than one byte.
    if (row.foreignId !== undefined) return crc32(this.textOf(row), seed) | 0;
    this.#parts ??= this.#slots.map(({ before, field }) => [
      knownPart(field === 'id' ? before + EVENT_ID_PREFIX : before),
      field,
    ]);
    let checksum = seed;
    for (const [before, field] of this.#parts) {
      const own = field === 'id' ? row.id : ownText(field, row);
      checksum = behindText(behindPart(checksum, before), own);
    }
    return behindPart(checksum, END_PART);
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

/** As it stands in JSON. */
function idText({ foreignId, id }: EventRow): string {
  return foreignId === undefined ? EVENT_ID_PREFIX + id : JSON.stringify(foreignId).slice(1, -1);
}

function ownText(field: Exclude<OwnField, 'id'>, row: EventRow): string {
  switch (field) {
    case 'window_start':
      return instantText(row.windowStart);
    case 'window_end':
      return instantText(row.windowEnd);
    case 'recorded_at':
      return instantText(row.recordedAt);
    case 'quantity':
      return row.quantity;
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
