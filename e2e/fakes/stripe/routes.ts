import { CONTROL_PREFIX, type FakeRequest, type FakeResponse } from '../fake-server.ts';
import { accountOf } from './account.ts';
import { invalid, ok, UNKNOWN_PATH } from './answers.ts';
import { listCoreEvents, showCoreEvent } from './core-events.ts';
import { createCreditNote, listCreditNotes, previewCreditNote } from './credit-notes.ts';
import {
  createCustomer,
  deleteCustomer,
  listCustomers,
  searchCustomers,
  showOneCustomer,
  updateCustomer,
} from './customers.ts';
import { type Form, parseForm } from './form.ts';
import {
  actOnInvoice,
  type InvoiceAction,
  createInvoice,
  createInvoiceItem,
  listInvoiceItems,
  listInvoices,
  listItems,
  listLines,
  previewInvoice,
  showOneInvoice,
  updateInvoice,
} from './invoice-routes.ts';
import { eventStream } from './event-stream.ts';
import { cancelMeterEvent, createMeterEvent, eventSummaries } from './meter-events.ts';
import { createMeter, listMeters, setMeterStatus } from './meters.ts';
import { createPrice, listPrices, showOnePrice, updatePrice } from './prices.ts';
import {
  cancelSchedule,
  createSchedule,
  releaseSchedule,
  showSchedule,
  updateSchedule,
} from './schedules.ts';
import type { StripeState } from './state.ts';
import { createSubscription } from './subscription-creation.ts';
import {
  cancelSubscription,
  listSubscriptions,
  migrateSubscription,
  showOneSubscription,
  updateSubscription,
} from './subscriptions.ts';
import { createTaxId, listTaxIds } from './tax-ids.ts';

const FORM = 'application/x-www-form-urlencoded';

/**
 * Returns the customer and meter of a meter event. One call at a time may be under way for them.
 */
export function laneOf({ path, body }: FakeRequest): string | undefined {
  if (path !== '/v1/billing/meter_events') return undefined;
  const fields = new URLSearchParams(body);
  return `${fields.get('event_name')} ${fields.get('payload[stripe_customer_id]')}`;
}

/** The options of a stand-in that routes use. */
export interface RouteOptions {
  readonly latencyMs?: number;
  readonly searchLagMs?: number;
  readonly withoutSearch?: boolean;
  /** Lanes with a call under way. */
  readonly busy: Set<string>;
}

/** Answers a request with the right credentials. */
export function route(
  state: StripeState,
  request: FakeRequest,
  at: number,
  options: RouteOptions,
): FakeResponse {
  const { method, path, query, headers, body } = request;
  if (path === `${CONTROL_PREFIX}events`) return ok(state.events);
  if (path === `${CONTROL_PREFIX}account`) return ok(accountOf(state));
  const streamed = eventStream(state, request, at);
  if (streamed !== undefined) return streamed;
  const posts = method === 'POST';
  if (posts && body !== '' && headers['content-type']?.startsWith(FORM) !== true) {
    return invalid('Invalid request: the body of a v1 request is a form');
  }
  const form = parseForm(posts ? new URLSearchParams(body) : query);
  if (form === undefined) return invalid('Invalid request: cannot parse its parameters');
  const segments = path.split('/').slice(1).map(decodeURIComponent);
  return dispatch(state, request, at, options, form, segments);
}

function dispatch(
  state: StripeState,
  request: FakeRequest,
  at: number,
  options: RouteOptions,
  form: Form,
  segments: readonly string[],
): FakeResponse {
  const [version, ...rest] = segments;
  const shape = [request.method, version, ...rest].join(' ');
  const [resource = '', id = '', action] = rest[0] === 'billing' ? rest.slice(1) : rest;
  switch (shape) {
    case 'GET v1 billing meters':
      return listMeters(state, form);
    case 'POST v1 billing meters':
      return createMeter(state, form, at);
    case 'POST v1 billing meter_events': {
      const lane = laneOf(request) ?? '';
      const isBusy = options.busy.has(lane);
      const response = createMeterEvent(state, form, at, () => isBusy);
      if (!isBusy && (options.latencyMs ?? 0) > 0) options.busy.add(lane);
      return response;
    }
    case 'GET v1 customers':
      return listCustomers(state, form);
    case 'POST v1 customers':
      return createCustomer(state, form, at);
    case 'GET v1 customers search':
      if (options.withoutSearch === true)
        return invalid('Search is not available in your country.');
      return searchCustomers(state, form, at - (options.searchLagMs ?? 0));
    case 'GET v1 prices':
      return listPrices(state, form);
    case 'POST v1 prices':
      return createPrice(state, form, at);
    case 'GET v1 subscriptions':
      return listSubscriptions(state, form);
    case 'POST v1 subscriptions':
      return createSubscription(state, form, at, request.headers['stripe-version']);
    case 'GET v2 core events':
      return listCoreEvents(state, form);
    case 'POST v1 billing meter_event_adjustments':
      return cancelMeterEvent(state, form, at);
    case 'GET v1 invoices':
      return listInvoices(state, form);
    case 'POST v1 invoices':
      return createInvoice(state, form, at);
    case 'POST v1 invoices create_preview':
      return previewInvoice(state, form, at);
    case 'GET v1 invoiceitems':
      return listInvoiceItems(state, form);
    case 'POST v1 invoiceitems':
      return createInvoiceItem(state, form, at);
    case 'GET v1 credit_notes':
      return listCreditNotes(state, form);
    case 'GET v1 credit_notes preview':
      return previewCreditNote(state, form, at);
    case 'POST v1 credit_notes':
      return createCreditNote(state, form, at);
    case 'GET v1 subscription_items':
      return listItems(state, form);
    case 'POST v1 subscription_schedules':
      return createSchedule(state, form);
    default:
      if (shape.startsWith('GET v2 core events ')) return showCoreEvent(state, action ?? '');
      return dispatchOne(
        state,
        `${request.method} ${resource} ${action ?? ''}`.trim(),
        id,
        form,
        at,
      );
  }
}

/** Handles requests about one object. */
function dispatchOne(
  state: StripeState,
  shape: string,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  switch (shape) {
    case 'POST meters deactivate':
      return setMeterStatus(state, id, 'inactive');
    case 'POST meters reactivate':
      return setMeterStatus(state, id, 'active');
    case 'GET meters event_summaries':
      return eventSummaries(state, id, form, at);
    case 'GET customers':
      return showOneCustomer(state, id);
    case 'POST customers':
      return updateCustomer(state, id, form);
    case 'GET customers tax_ids':
      return listTaxIds(state, id, form);
    case 'POST customers tax_ids':
      return createTaxId(state, id, form, at);
    case 'DELETE customers':
      return deleteCustomer(state, id, at);
    case 'GET prices':
      return showOnePrice(state, id);
    case 'POST prices':
      return updatePrice(state, id, form);
    case 'POST subscriptions':
      return updateSubscription(state, id, form, at);
    case 'DELETE subscriptions':
      return cancelSubscription(state, id, form, at);
    case 'GET subscriptions':
      return showOneSubscription(state, id);
    case 'POST subscriptions migrate':
      return migrateSubscription(state, id);
    case 'GET invoices':
      return showOneInvoice(state, id);
    case 'POST invoices':
      return updateInvoice(state, id, form, at);
    case 'GET invoices lines':
      return listLines(state, id, form);
    case 'POST invoices finalize':
    case 'POST invoices void':
    case 'POST invoices pay':
    case 'POST invoices mark_uncollectible':
      return actOnInvoice(state, id, shape.split(' ').at(-1) as InvoiceAction, at);
    case 'GET subscription_schedules':
      return showSchedule(state, id);
    case 'POST subscription_schedules':
      return updateSchedule(state, id, form, at);
    case 'POST subscription_schedules release':
      return releaseSchedule(state, id);
    case 'POST subscription_schedules cancel':
      return cancelSchedule(state, id, form, at);
    default:
      return UNKNOWN_PATH;
  }
}
