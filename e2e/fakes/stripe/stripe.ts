import {
  CONTROL_PREFIX,
  type FakeRequest,
  type FakeResponse,
  type FakeServer,
  startFakeServer,
} from '../fake-server.ts';
import { forbidden, invalid, ok, RATE_LIMITED, UNAUTHORIZED, UNKNOWN_PATH } from './answers.ts';
import { listCoreEvents, showCoreEvent } from './core-events.ts';
import {
  createCustomer,
  deleteCustomer,
  listCustomers,
  searchCustomers,
  showOneCustomer,
  updateCustomer,
} from './customers.ts';
import { type Form, parseForm } from './form.ts';
import { replayed, storeCarriedOut } from './idempotency.ts';
import { createMeterEvent, eventSummaries } from './meter-events.ts';
import { createMeter, listMeters, setMeterStatus } from './meters.ts';
import { createPrice, listPrices, updatePrice } from './prices.ts';
import { createStripeState, type StripeState } from './state.ts';
import {
  cancelSubscription,
  createSubscription,
  listSubscriptions,
  updateSubscription,
} from './subscriptions.ts';

const SECOND_MS = 1_000;
const FORM = 'application/x-www-form-urlencoded';

export interface FakeStripeOptions {
  readonly apiKey: string;
  /** A restricted key: the permission that it lacks for a request, if so. */
  readonly lacks?: (method: string, path: string) => string | undefined;
  /** Requests in any one second; more are refused. */
  readonly requestsPerSecond?: number;
  /** How far the search index lags behind; endless when infinite. */
  readonly searchLagMs?: number;
  /** Search as in countries where it is not offered. */
  readonly withoutSearch?: boolean;
  /** Answers take so long, which is when calls can meet. */
  readonly latencyMs?: number;
  readonly keepsRequests?: boolean;
  readonly now?: () => number;
  /** When a request came, if it says so itself. */
  readonly timeOf?: (request: FakeRequest) => number;
  readonly port?: number;
}

export interface FakeStripe extends FakeServer {
  readonly state: StripeState;
}

/**
 * A stateful stand-in for Stripe (docs/destinations/stripe.md#how-stripe-answers): identifiers unique for
 * 24 hours only, results stored by idempotency key with 5xx among them, one call at a time for a customer
 * and meter, search that lags behind.
 */
export async function startFakeStripe(options: FakeStripeOptions): Promise<FakeStripe> {
  const state = createStripeState();
  const busy = new Set<string>();
  const seconds = new Map<number, number>();
  const at = (request: FakeRequest): number => options.timeOf?.(request) ?? request.at;

  const handle = (request: FakeRequest): FakeResponse => {
    const now = at(request);
    if (isTooFast(seconds, request.at, options.requestsPerSecond)) return RATE_LIMITED;
    const stored = replayed(state, request, now);
    if (stored !== undefined) return stored;
    const response = route(state, request, now, { ...options, busy });
    storeCarriedOut(state, request, response, now);
    return response;
  };
  const server = await startFakeServer({
    ...options,
    authorize: ({ method, path, headers }) => {
      if (path.startsWith(CONTROL_PREFIX)) return undefined;
      if (headers['authorization'] !== `Bearer ${options.apiKey}`) return UNAUTHORIZED;
      const permission = options.lacks?.(method, path);
      return permission === undefined ? undefined : forbidden(permission);
    },
    handle,
    answered: (request) => {
      const key = laneOf(request);
      if (key !== undefined) busy.delete(key);
    },
    misbehaved: (request, { status = 503 }) => {
      // What never got past the front door left nothing behind.
      if (status >= 500 && status !== 503) {
        storeCarriedOut(state, request, { status, body: STORED_FAILURE }, at(request));
      }
    },
  });
  return { ...server, state };
}

const STORED_FAILURE = { error: { type: 'api_error', message: 'An unknown error occurred' } };

function isTooFast(
  seconds: Map<number, number>,
  at: number,
  most = Number.POSITIVE_INFINITY,
): boolean {
  const second = Math.floor(at / SECOND_MS);
  const count = (seconds.get(second) ?? 0) + 1;
  seconds.set(second, count);
  return count > most;
}

/** The customer and meter of a meter event, of which one call at a time may be under way. */
function laneOf({ path, body }: FakeRequest): string | undefined {
  if (path !== '/v1/billing/meter_events') return undefined;
  const fields = new URLSearchParams(body);
  return `${fields.get('event_name')} ${fields.get('payload[stripe_customer_id]')}`;
}

interface RouteOptions extends FakeStripeOptions {
  readonly busy: Set<string>;
}

function route(
  state: StripeState,
  request: FakeRequest,
  at: number,
  options: RouteOptions,
): FakeResponse {
  const { method, path, query, headers, body } = request;
  if (path === `${CONTROL_PREFIX}events`) return ok(state.events);
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
      return createSubscription(state, form, at);
    case 'GET v2 core events':
      return listCoreEvents(state, form);
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

/** Requests about one object. */
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
      return eventSummaries(state, id, form);
    case 'GET customers':
      return showOneCustomer(state, id);
    case 'POST customers':
      return updateCustomer(state, id, form);
    case 'DELETE customers':
      return deleteCustomer(state, id, at);
    case 'POST prices':
      return updatePrice(state, id, form);
    case 'POST subscriptions':
      return updateSubscription(state, id, form, at);
    case 'DELETE subscriptions':
      return cancelSubscription(state, id, form, at);
    default:
      return UNKNOWN_PATH;
  }
}
