import { crc32 } from 'node:zlib';
import { SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { type EventRow, idOf, type Series } from './event-rows.ts';
import { instantText } from './instants.ts';
import { behindPart, behindText, type KnownPart, knownPart } from './known-parts.ts';

/** What a row says of its event; everything else is the same for all events of a series. The quantity stands last. */
const OWN_FIELDS = ['id', 'window_start', 'window_end', 'recorded_at', 'quantity'] as const;
type OwnField = (typeof OWN_FIELDS)[number];
type OwnTexts = Readonly<Record<OwnField, string>>;

/** How the events of a series look, so that those whose rows have no `extra` are put together at little cost. */
export interface EventTemplate {
  /** The text of a row's event, as `encodeEvent` gives it. */
  textOf(row: EventRow): string;
  /** Whether that is the text. */
  makes(row: EventRow, text: string): boolean;
  /**
   * The event of a row; undefined unless `checksum` is the CRC-32 of its text, started from `seed`, signed. What it shares
   * with others is frozen.
   */
  eventWith(checksum: number, seed: number, row: EventRow): UsageEvent | undefined;
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
    const own = OWN_FIELDS.find((field) => field === name);
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
  slots.push({ before: `${before},"quantity":`, field: 'quantity' });
  if (slots.length < OWN_FIELDS.length) return undefined;
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
    const own = ownTexts(row, idText(row));
    let text = '';
    for (const { before, field } of this.#slots) {
      text += before;
      text += own[field];
    }
    return text + END;
  }

  makes(row: EventRow, text: string): boolean {
    const own = ownTexts(row, idText(row));
    let at = 0;
    for (const { before, field } of this.#slots) {
      const ownAt = at + before.length;
      if (text.slice(at, ownAt) !== before) return false;
      at = ownAt + own[field].length;
      if (text.slice(ownAt, at) !== own[field]) return false;
    }
    return text.slice(at) === END;
  }

  eventWith(checksum: number, seed: number, row: EventRow): UsageEvent | undefined {
    const own = ownTexts(row, row.id);
    // Only in an id of others can there be characters that are more than one byte.
    const found =
      row.foreignId === undefined ? this.#checksumOf(own, seed) : crc32(this.textOf(row), seed) | 0;
    if (found !== checksum) return undefined;
    return {
      ...this.#event,
      id: idOf(row),
      window_start: own.window_start,
      window_end: own.window_end,
      recorded_at: own.recorded_at,
      // Written by `storedRow` from a quantity.
      quantity: row.quantity as UsageEvent['quantity'],
    };
  }

  /** Of an event with a derived id, without its prefix. */
  #checksumOf(own: OwnTexts, seed: number): number {
    this.#parts ??= this.#slots.map(({ before, field }) => [
      knownPart(field === 'id' ? before + EVENT_ID_PREFIX : before),
      field,
    ]);
    let checksum = seed;
    for (const [before, field] of this.#parts) {
      checksum = behindText(behindPart(checksum, before), own[field]);
    }
    return behindPart(checksum, END_PART);
  }
}

function ownTexts(row: EventRow, id: string): OwnTexts {
  return {
    id,
    window_start: instantText(row.windowStart),
    window_end: instantText(row.windowEnd),
    recorded_at: instantText(row.recordedAt),
    quantity: row.quantity,
  };
}

/** As it stands in JSON. */
function idText({ foreignId, id }: EventRow): string {
  return foreignId === undefined ? EVENT_ID_PREFIX + id : JSON.stringify(foreignId).slice(1, -1);
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
