import { flatText } from '../../model/flat-text.ts';
import { SCHEMA_VERSION } from '../../model/event.ts';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import type { EventRow, Series } from './event-rows.ts';
import { instantText } from './instants.ts';

/** What a row says of its event; everything else is the same for all events of a series. The quantity stands last. */
const OWN_FIELDS = ['id', 'window_start', 'window_end', 'recorded_at', 'quantity'] as const;
export type OwnField = (typeof OWN_FIELDS)[number];
type OwnTexts = Readonly<Record<OwnField, string>>;

/** How the text of a series' events looks, by which an event is known for one of them at little cost. */
export interface EventTemplate {
  /** The text of a row's event, as `encodeEvent` gives it. */
  textOf(row: EventRow): string;
  /** Whether that is the text. */
  makes(row: EventRow, text: string): boolean;
}

/** A field that is the row's own, and what stands between the one before it and its value. */
export interface Slot {
  readonly before: string;
  readonly field: OwnField;
}

/** How the events of a series are put together. */
export interface EventLayout {
  readonly slots: readonly Slot[];
  /** Every field of an event in the order of its text, those that are a row's own being empty. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What stands behind the quantity. */
export const END = '}';

/** Undefined where the events of a series are not all alike but for what a row says. `parse`: of JSON. */
export function layoutOf(
  series: Series,
  parse: (text: string) => unknown = JSON.parse,
): EventLayout | undefined {
  const slots: Slot[] = [];
  const fields: Record<string, unknown> = {};
  let before = '{';
  let isFirst = true;
  for (const name of series.fields.split(',')) {
    const own = OWN_FIELDS.find((field) => field === name);
    const value = own === undefined ? sharedField(name, series, parse) : '';
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
  return { slots, fields };
}

/** Undefined where {@link layoutOf} is. */
export function createTemplate(series: Series): EventTemplate | undefined {
  const layout = layoutOf(series);
  return (
    layout &&
    new Template(layout.slots.map(({ before, field }) => ({ before: flatText(before), field })))
  );
}

class Template implements EventTemplate {
  readonly #slots: readonly Slot[];

  constructor(slots: readonly Slot[]) {
    this.#slots = slots;
  }

  textOf(row: EventRow): string {
    const own = ownTexts(row);
    let text = '';
    for (const { before, field } of this.#slots) {
      text += before;
      text += own[field];
    }
    return text + END;
  }

  makes(row: EventRow, text: string): boolean {
    return this.textOf(row) === text;
  }
}

function ownTexts(row: EventRow): OwnTexts {
  return {
    id: idText(row),
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
function sharedField(name: string, series: Series, parse: (text: string) => unknown): unknown {
  switch (name) {
    case 'schema_version':
      return SCHEMA_VERSION;
    case 'properties':
    case 'dimensions': {
      const text = series[name];
      return text === undefined ? undefined : parse(text);
    }
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
