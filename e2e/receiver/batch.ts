declare global {
  interface JSON {
    /** A value that is serialised as the given JSON text (TC39 JSON.parse source text access). */
    rawJSON(text: string): object;
  }
}

/** The part of a CloudEvent that the receiver looks at. */
export interface CloudEvent {
  readonly specversion: '1.0';
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject?: string;
  readonly time?: string;
  readonly data?: unknown;
}

export type ParsedBatch =
  | { readonly kind: 'events'; readonly events: readonly CloudEvent[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** What usage events are called (docs/how-to/destinations/webhook.md#what-is-sent); anything else is acknowledged and left alone. */
export const USAGE_EVENT_PREFIX = 'io.meterfeed.usage.v1.';

/** Reads a CloudEvents batch in JSON (or a single structured event). Quantities keep every digit they came with. */
export function parseBatch(contentType: string, body: string): ParsedBatch {
  if (!/^application\/cloudevents(-batch)?\+json\b/.test(contentType)) {
    return { kind: 'refused', reason: `content type: not a CloudEvents batch: "${contentType}"` };
  }
  let value: unknown;
  try {
    value = JSON.parse(body, keepDigits);
  } catch (error) {
    return { kind: 'refused', reason: `body: not JSON: ${String(error)}` };
  }
  const events: readonly unknown[] = Array.isArray(value) ? value : [value];
  const wrong = events.findIndex((event) => !isCloudEvent(event));
  if (wrong >= 0) {
    return { kind: 'refused', reason: `body: event ${wrong} lacks a required attribute` };
  }
  return { kind: 'events', events: events.filter(isCloudEvent) };
}

function isCloudEvent(value: unknown): value is CloudEvent {
  if (typeof value !== 'object' || value === null) return false;
  const event = value as Readonly<Record<string, unknown>>;
  const texts = [event['id'], event['source'], event['type']];
  return (
    event['specversion'] === '1.0' && texts.every((text) => typeof text === 'string' && text !== '')
  );
}

function keepDigits(this: unknown, key: string, value: unknown, ...rest: unknown[]): unknown {
  if (key !== 'quantity' || typeof value !== 'number') return value;
  const context = rest[0] as { readonly source?: string } | undefined;
  return context?.source === undefined ? value : JSON.rawJSON(context.source);
}
