import type { FakeResponse } from '../fake-server.ts';
import { ACCEPTED, instant, isObject, refused, text } from './answers.ts';
import { counts } from './metrics.ts';
import { customerOf, type MetronomeState, type StoredEvent } from './state.ts';

const HOUR_MS = 3_600_000;
const MEMORY_MS = 34 * 24 * HOUR_MS;
const MAX_EARLY_MS = 24 * HOUR_MS;
const MAX_EVENTS = 100;
const MAX_ID = 128;

/**
 * Accepts an array of 1 to 100 events. One bad event refuses all, and the answer does not name it
 * (docs/how-to/destinations/metronome.md#how-metronome-answers).
 */
export function ingest(state: MetronomeState, input: unknown, at: number): FakeResponse {
  if (!Array.isArray(input)) return refused(400, 'the body must be an array of events');
  const items = input as unknown[];
  if (items.length === 0 || items.length > MAX_EVENTS) {
    return refused(400, 'the body must have between 1 and 100 events');
  }
  const events: StoredEvent[] = [];
  for (const item of items) {
    const read = readEvent(item, at);
    if (typeof read === 'string') return refused(400, read);
    events.push(read);
  }
  for (const event of events) {
    const before = state.takenAt.get(event.transaction_id);
    if (before !== undefined && at - before < MEMORY_MS) {
      state.repeats += 1;
      continue;
    }
    state.takenAt.set(event.transaction_id, at);
    state.events.push(event);
  }
  return ACCEPTED;
}

/** Returns every accepted event with these ids. */
export function searchEvents(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const ids = input['transactionIds'];
  if (!Array.isArray(ids)) return refused(400, 'transactionIds is required');
  const wanted = new Set(ids as unknown[]);
  const found = state.events.filter(({ transaction_id }) => wanted.has(transaction_id));
  const body = found.map(({ takenAt, ...event }) => {
    const customer = customerOf(state, event.customer_id);
    return {
      id: event.transaction_id,
      ...event,
      processed_at: new Date(takenAt).toISOString(),
      is_duplicate: false,
      ...(customer !== undefined && {
        matched_customer: { id: customer.id, name: customer.name },
        matched_billable_metrics: state.metrics
          .filter((metric) => counts(metric, { ...event, takenAt }))
          .map(({ id, name }) => ({ id, name })),
      }),
    };
  });
  return { status: 200, body };
}

function readEvent(item: unknown, at: number): StoredEvent | string {
  if (!isObject(item)) return 'an event must be an object';
  const transaction_id = text(item['transaction_id']);
  const customer_id = text(item['customer_id']);
  const event_type = text(item['event_type']);
  const time = instant(item['timestamp']);
  if (transaction_id === undefined || transaction_id.length > MAX_ID) {
    return 'transaction_id must have 1 to 128 characters';
  }
  if (customer_id === undefined || event_type === undefined) {
    return 'customer_id and event_type are required';
  }
  if (time === undefined) return 'timestamp must be an RFC 3339 text';
  if (at - time > MEMORY_MS) return 'timestamp is too far in the past';
  if (time - at > MAX_EARLY_MS) return 'timestamp is too far in the future';
  const properties = isObject(item['properties']) ? item['properties'] : {};
  const timestamp = String(item['timestamp']);
  return { transaction_id, customer_id, event_type, timestamp, properties, takenAt: at };
}
