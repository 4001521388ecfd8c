import type { FakeResponse } from '../fake-server.ts';
import { ok } from './answers.ts';
import { type Form, text, texts } from './form.ts';
import { type CoreEvent, nextId, type StripeState } from './state.ts';

/** Errors that Stripe found in events after it accepted them. */
export interface MeterErrors {
  readonly meter: string;
  readonly code: string;
  readonly count: number;
  readonly message: string;
  /** The idempotency key of one of the requests. */
  readonly request: string;
  /** The field with the key; `identifier` by default, as in the SDK. */
  readonly keyName?: 'identifier' | 'idempotency_key';
  /** For usage whose event name no meter has. */
  readonly type?: 'v1.billing.meter.no_meter_found';
}

/** Adds a report in Stripe's form (docs/how-to/destinations/stripe.md#what-errors-mean). */
export function reportErrors(state: StripeState, errors: MeterErrors, at: number): void {
  const { meter, code, count, message, request, keyName = 'identifier' } = errors;
  const sample = { error_message: message, request: { [keyName]: request } };
  const start = new Date(at - 60_000).toISOString();
  const event: CoreEvent = {
    id: nextId(state, 'evt_test'),
    type: errors.type ?? 'v1.billing.meter.error_report_triggered',
    created: new Date(at).toISOString(),
    related_object: errors.type === undefined ? { id: meter, type: 'billing.meter' } : null,
    data: {
      developer_message_summary: `There is ${count} invalid event`,
      validation_start: start,
      validation_end: new Date(at).toISOString(),
      reason: {
        error_count: count,
        error_types: [{ code, error_count: count, sample_errors: [sample] }],
      },
    },
  };
  state.coreEvents.push(event);
}

/** Lists v2 events without their data, newest first, for 30 days. */
export function listCoreEvents(state: StripeState, query: Form): FakeResponse {
  const types = Object.values(texts(query, 'types'));
  const since = text(query, 'created', 'gte') ?? text(query, 'created', 'gt') ?? '';
  const data = state.coreEvents
    .filter(({ type }) => types.length === 0 || types.includes(type))
    .filter(({ created }) => since === '' || Date.parse(created) >= Date.parse(since))
    .map((event) => ({ ...event, data: undefined, object: 'v2.core.event', livemode: false }))
    .toReversed();
  return ok({ data, next_page_url: null, previous_page_url: null });
}

/** Returns one event with its data. */
export function showCoreEvent(state: StripeState, id: string): FakeResponse {
  const event = state.coreEvents.find((one) => one.id === id);
  if (event !== undefined) return ok({ ...event, object: 'v2.core.event', livemode: false });
  return { status: 404, body: { error: { code: 'not_found', message: `No such event: ${id}` } } };
}
