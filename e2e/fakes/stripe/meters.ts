import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { type Form, text } from './form.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { type Meter, nextId, type StripeState } from './state.ts';

const MAX_NAME = 100;
const MAX_DISPLAY_NAME = 250;

const CREATE = [
  'display_name',
  'event_name',
  'default_aggregation',
  'customer_mapping',
  'value_settings',
  'event_time_window',
];

export function createMeter(state: StripeState, form: Form, at: number): FakeResponse {
  const display_name = text(form, 'display_name') ?? '';
  const event_name = text(form, 'event_name') ?? '';
  const formula = text(form, 'default_aggregation', 'formula') ?? '';
  const unknown = unknownParameter(form, CREATE);
  if (unknown !== undefined) return unknown;
  for (const [name, value, most] of [
    ['display_name', display_name, MAX_DISPLAY_NAME],
    ['event_name', event_name, MAX_NAME],
  ] as const) {
    if (value === '') return invalid(`Missing required param: ${name}.`, 'parameter_missing', name);
    if (value.length > most) return invalid(`Invalid string: must be at most ${most} characters`);
  }
  if (!['sum', 'count', 'last'].includes(formula)) return invalid('Invalid default_aggregation');
  if (activeMeter(state, event_name) !== undefined) {
    return invalid(`An active meter with event_name ${event_name} already exists.`);
  }
  const meter: Meter = {
    id: nextId(state, 'mtr_test'),
    created: Math.floor(at / 1000),
    event_name,
    display_name,
    formula,
    customerKey: text(form, 'customer_mapping', 'event_payload_key') ?? 'stripe_customer_id',
    valueKey: text(form, 'value_settings', 'event_payload_key') ?? 'value',
    eventTimeWindow: text(form, 'event_time_window') ?? null,
    status: 'active',
  };
  state.meters.set(meter.id, meter);
  return ok(showMeter(meter));
}

export function listMeters(state: StripeState, query: Form): FakeResponse {
  const unknown = unknownParameter(query, ['status', ...PAGING]);
  if (unknown !== undefined) return unknown;
  const status = text(query, 'status');
  const found = [...state.meters.values()].filter(
    (meter) => status === undefined || meter.status === status,
  );
  return page('/v1/billing/meters', query, found, showMeter);
}

export function setMeterStatus(
  state: StripeState,
  id: string,
  status: Meter['status'],
): FakeResponse {
  const meter = state.meters.get(id);
  if (meter === undefined) return missing('billing.meter', id);
  if (meter.status === status) return invalid(`This meter is already ${status}.`);
  if (status === 'active' && activeMeter(state, meter.event_name) !== undefined) {
    return invalid(`An active meter with event_name ${meter.event_name} already exists.`);
  }
  meter.status = status;
  return ok(showMeter(meter));
}

export function activeMeter(state: StripeState, eventName: string): Meter | undefined {
  return [...state.meters.values()].find(
    ({ event_name, status }) => event_name === eventName && status === 'active',
  );
}

export function showMeter(meter: Meter): unknown {
  const { id, created, event_name, display_name, status } = meter;
  return {
    id,
    object: 'billing.meter',
    created,
    updated: created,
    event_name,
    display_name,
    status,
    customer_mapping: { type: 'by_id', event_payload_key: meter.customerKey },
    value_settings: { event_payload_key: meter.valueKey },
    default_aggregation: { formula: meter.formula },
    event_time_window: meter.eventTimeWindow,
    status_transitions: { deactivated_at: status === 'active' ? null : created },
    livemode: false,
  };
}
