import type { FakeResponse } from '../fake-server.ts';
import { exact, plus, textOf, ZERO, type Exact } from '../exact.ts';
import { failure, invalid, missing, ok } from './answers.ts';
import { type Form, text, texts } from './form.ts';
import { unknownParameter } from './lists.ts';
import { activeMeter } from './meters.ts';
import type { Meter, MeterEvent, StripeState } from './state.ts';

const DAY_MS = 86_400_000;
const MAX_AGE_MS = 35 * DAY_MS;
const MAX_EARLY_MS = 300_000;
/** How long an identifier is unique; after that a repeat counts again. */
const MEMORY_MS = DAY_MS;
const MAX_NAME = 100;
const MAX_DIGITS = 15;
const MINUTE = 60;

/**
 * Accepts one event; `busy` is true while another call for this customer and meter is under way.
 */
export function createMeterEvent(
  state: StripeState,
  form: Form,
  at: number,
  busy: (customer: string, meter: string) => boolean,
): FakeResponse {
  const unknown = unknownParameter(form, ['event_name', 'payload', 'identifier', 'timestamp']);
  if (unknown !== undefined) return unknown;
  const eventName = text(form, 'event_name') ?? '';
  const identifier = text(form, 'identifier') ?? `auto_${state.events.length}`;
  const timestamp = Number(text(form, 'timestamp') ?? Math.floor(at / 1000));
  if (eventName === '' || eventName.length > MAX_NAME) return invalid('Invalid event_name');
  if (identifier === '' || identifier.length > MAX_NAME) return invalid('Invalid identifier');
  if (!Number.isInteger(timestamp))
    return invalid('Invalid timestamp', 'parameter_invalid_integer');

  const meter = activeMeter(state, eventName);
  if (meter === undefined) {
    const archived = [...state.meters.values()].some(({ event_name }) => event_name === eventName);
    const stated = `No active meter found with the event name ${eventName}.`;
    return archived
      ? invalid(`${stated} It is archived.`, 'archived_meter')
      : invalid(stated, 'no_meter');
  }
  const payload = texts(form, 'payload');
  const problem = payloadProblem(state, meter, payload) ?? timeProblem(timestamp, at);
  if (problem !== undefined) return problem;
  const customer = payload[meter.customerKey] ?? '';
  if (busy(customer, meter.id)) {
    const code = 'too_many_concurrent_requests';
    return failure(409, 'invalid_request_error', 'Another request is under way.', { code });
  }
  const takenAt = state.identifiers.get(identifier);
  if (takenAt !== undefined && at - takenAt < MEMORY_MS) {
    state.repeats += 1;
    const stated = `An event already exists with identifier ${identifier}.`;
    return failure(400, 'invalid_request_error', stated, { shouldRetry: false });
  }
  state.identifiers.set(identifier, at);
  const value = payload[meter.valueKey] ?? '';
  const event: MeterEvent = {
    identifier,
    event_name: eventName,
    meter: meter.id,
    customer,
    value,
    timestamp,
    receivedAt: at,
    isCanceled: false,
  };
  state.events.push(event);
  const created = Math.floor(at / 1000);
  const object = 'billing.meter_event';
  return ok({
    object,
    created,
    event_name: eventName,
    identifier,
    livemode: false,
    payload,
    timestamp,
  });
}

function payloadProblem(
  state: StripeState,
  meter: Meter,
  payload: Readonly<Record<string, string>>,
): FakeResponse | undefined {
  const customer = payload[meter.customerKey];
  if (customer === undefined) {
    return invalid('No customer in the payload.', 'meter_event_no_customer_defined');
  }
  if (state.customers.get(customer)?.deleted !== false) {
    return invalid(`No such customer: '${customer}'`, 'meter_event_customer_not_found');
  }
  const value = payload[meter.valueKey];
  if (value === undefined || !/^-?\d+(\.\d{1,12})?$/.test(value)) {
    return invalid(`Invalid value: ${value}`, 'meter_event_invalid_value');
  }
  const digits = value.replace(/[-.]/g, '').replace(/^0+/, '').length;
  if (digits <= MAX_DIGITS) return undefined;
  return invalid('Too many digits in the value.', 'meter_event_value_too_many_digits');
}

function timeProblem(timestamp: number, at: number): FakeResponse | undefined {
  if (at - timestamp * 1000 > MAX_AGE_MS) {
    const oldest = Math.floor((at - MAX_AGE_MS) / 1000);
    return invalid(
      `Timestamp cannot be more than 35 days in the past; the earliest is ${oldest}.`,
      'timestamp_too_far_in_past',
    );
  }
  if (timestamp * 1000 - at <= MAX_EARLY_MS) return undefined;
  return invalid('Timestamp is too far in the future.', 'timestamp_in_future');
}

/** Returns the sums of a meter, as far as they are up to date. */
export function eventSummaries(
  state: StripeState,
  meterId: string,
  query: Form,
  at: number,
): FakeResponse {
  const known = ['customer', 'start_time', 'end_time', 'value_grouping_window', 'limit'];
  const unknown = unknownParameter(query, known);
  if (unknown !== undefined) return unknown;
  if (!state.meters.has(meterId)) return missing('billing.meter', meterId);
  const customer = text(query, 'customer');
  const start = Number(text(query, 'start_time'));
  const end = Number(text(query, 'end_time'));
  const window = text(query, 'value_grouping_window');
  const grain = window === 'day' ? 86_400 : window === 'hour' ? 3_600 : MINUTE;
  if (customer === undefined || !(start < end)) return invalid('Missing required param');
  if (start % grain !== 0 || end % grain !== 0)
    return invalid(`Times must be aligned to ${grain} s`);
  const sums = new Map<number, Exact>();
  const until = at - state.rules.sumsLagSeconds * 1_000;
  for (const event of state.events) {
    const { timestamp, value } = event;
    if (event.receivedAt > until) continue;
    if (event.meter !== meterId || event.customer !== customer || event.isCanceled) continue;
    if (timestamp < start || timestamp >= end) continue;
    const from = window === undefined ? start : timestamp - (timestamp % grain);
    sums.set(from, plus(sums.get(from) ?? ZERO, exact(value)));
  }
  const data = [...sums].map(([from, total]) => ({
    id: `mtrusg_${meterId}_${from}`,
    object: 'billing.meter_event_summary',
    aggregated_value: Number(textOf(total)),
    start_time: from,
    end_time: window === undefined ? end : from + grain,
    livemode: false,
    meter: meterId,
  }));
  return ok({
    object: 'list',
    url: `/v1/billing/meters/${meterId}/event_summaries`,
    data,
    has_more: false,
  });
}

/** Cancels an event within a day of its receipt; final invoices do not change. */
export function cancelMeterEvent(state: StripeState, form: Form, at: number): FakeResponse {
  const unknown = unknownParameter(form, ['event_name', 'type', 'cancel']);
  if (unknown !== undefined) return unknown;
  const identifier = text(form, 'cancel', 'identifier') ?? '';
  const eventName = text(form, 'event_name');
  const event = state.events.findLast(
    (one) => one.identifier === identifier && one.event_name === eventName,
  );
  if (event === undefined) return missing('billing.meter_event', identifier);
  if (at - event.receivedAt > MEMORY_MS) {
    return invalid('An event can only be cancelled within 24 hours of its receipt.');
  }
  event.isCanceled = true;
  return ok({
    object: 'billing.meter_event_adjustment',
    cancel: { identifier },
    event_name: eventName,
    livemode: false,
    status: 'complete',
    type: 'cancel',
  });
}
