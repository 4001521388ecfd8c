import {
  CONTROL_PREFIX,
  type FakeRequest,
  type FakeResponse,
  type FakeServer,
  type RequestJournal,
  startFakeServer,
} from '../fake-server.ts';
import type { Account } from '../account.ts';
import { createTestClock, turnedBy } from '../test-clock.ts';
import { createWebhookSender, type WebhookSender } from '../webhook-sender.ts';
import { accountOf } from './account.ts';
import { badRequest, isObject, notFound, ok, UNAUTHORIZED } from './answers.ts';
import { createMetric, listMetrics, showMetric, updateMetric } from './billable-metrics.ts';
import { createCreditNote, estimateCreditNote, listCreditNotes } from './credit-notes.ts';
import { showOneFee } from './invoice-view.ts';
import {
  deleteCustomer,
  listCustomers,
  showBillingEntity,
  showCustomer,
  upsertCustomer,
} from './customers.ts';
import { createBatch, createEvent, type EventStore, listEvents, showEvent } from './events.ts';
import {
  actOnInvoice,
  createAddOn,
  createInvoice,
  listFees,
  listInvoices,
  pastUsage,
  showAddOn,
  updateInvoice,
} from './invoice-routes.ts';
import { billsOf, invoicePage } from './invoices.ts';
import { runJobs } from './jobs.ts';
import {
  addCharge,
  createPlan,
  listCharges,
  listPlans,
  showCharge,
  showPlan,
  updateCharge,
  updatePlan,
} from './plans.ts';
import { createLagoState, type LagoRules, type LagoState } from './state.ts';
import {
  createSubscription,
  listSubscriptions,
  showSubscription,
  terminateSubscription,
} from './subscriptions.ts';
import { currentUsage, unbilledEvents } from './usage.ts';
import {
  createLagoKeys,
  LAGO_WAITS,
  type LagoKeys,
  type LagoSignature,
  lagoHeaders,
  lagoMessage,
  showPublicKey,
} from './webhooks.ts';

const API = '/api/v1/';
const PUBLIC_KEY = /^\/api\/v1\/webhooks\/(json_)?public_key$/;
const DEFAULT_BATCH_MAX = 100;

export interface FakeLagoOptions {
  readonly apiKey: string;
  readonly store?: EventStore;
  /** LAGO_EVENTS_BATCH_MAX_LENGTH; 100 by default. */
  readonly batchMax?: number;
  /** A server of an older release, without routes for the charges of a plan. */
  readonly legacy?: boolean;
  readonly rules?: Partial<LagoRules>;
  /** The signature of webhooks; `jwt` by default. */
  readonly webhookSignature?: LagoSignature;
  readonly journal?: RequestJournal;
  readonly keepsRequests?: boolean;
  readonly now?: () => number;
  /** Returns when a request arrived, for requests that carry their own time. */
  readonly timeOf?: (request: FakeRequest) => number;
  readonly port?: number;
}

export interface FakeLago extends FakeServer {
  readonly state: LagoState;
  /** Sets the clock and runs every job that is due by then. The clock stands still afterwards. */
  readonly turnTo: (at: number) => void;
  /** Returns the state of all usage. */
  readonly account: () => Account;
  readonly webhooks: WebhookSender;
  /** The key pair that signs webhooks. */
  readonly keys: LagoKeys;
}

/**
 * Starts a stateful stand-in for Lago (docs/how-to/destinations/lago.md#how-lago-answers). It rolls
 * back complete batches, lists errors by index, remembers duplicates for ever, and makes invoices
 * by the rules of its own jobs (`jobs.ts`).
 */
export async function startFakeLago(options: FakeLagoOptions): Promise<FakeLago> {
  const state = createLagoState(options.rules);
  const keys = createLagoKeys();
  const clock = createTestClock(options.now);
  const sliceTo = (at: number): void => {
    clock.turnTo(at);
    runJobs(state, at);
  };
  const server = await startFakeServer({
    ...options,
    now: clock.now,
    authorize: ({ path, headers }) => {
      if (!path.startsWith(API)) return undefined;
      return headers['authorization'] === `Bearer ${options.apiKey}` ? undefined : UNAUTHORIZED;
    },
    handle: (given) => {
      const request = { ...given, at: options.timeOf?.(given) ?? given.at };
      runJobs(state, request.at);
      if (PUBLIC_KEY.test(request.path)) return showPublicKey(keys, request.path);
      const answer = (): FakeResponse => route(state, request, options);
      return turnedBy(request, sliceTo) ?? withinLimit(state, request, answer);
    },
  });
  const webhooks = createWebhookSender({
    clock,
    turnTo: sliceTo,
    notices: () => state.notices.map(lagoMessage),
    waits: LAGO_WAITS,
    sign: (body, message) =>
      lagoHeaders(
        options.webhookSignature ?? { algorithm: 'jwt' },
        keys,
        server.url,
        body,
        message,
      ),
  });
  return {
    ...server,
    state,
    turnTo: sliceTo,
    account: () => accountOf(state, clock.now()),
    webhooks,
    keys,
  };
}

/**
 * Returns whether a call is within the limit. Lago Cloud counts the calls of an organisation each
 * second, and each answer has the remaining number.
 */
function withinLimit(
  state: LagoState,
  { path, at }: FakeRequest,
  answer: () => FakeResponse,
): FakeResponse {
  const { callsPerSecond } = state.rules;
  if (callsPerSecond === undefined || !path.startsWith(API)) return answer();
  const second = Math.floor(at / 1_000);
  const count = state.calls.second === second ? state.calls.count + 1 : 1;
  state.calls = { second, count };
  const headers = {
    'x-ratelimit-limit': String(callsPerSecond),
    'x-ratelimit-remaining': String(Math.max(0, callsPerSecond - count)),
    'x-ratelimit-reset': '1',
  };
  if (count > callsPerSecond) {
    return { status: 429, headers, body: { status: 429, error: 'Too Many Requests' } };
  }
  return { ...answer(), headers };
}

function route(state: LagoState, request: FakeRequest, options: FakeLagoOptions): FakeResponse {
  const { path } = request;
  if (path === '/health') return ok({ version: '1.51.0', github_url: '', message: 'Success' });
  if (path === '/ready') return ok({ status: 'ok' });
  if (path === '/' || path === `${CONTROL_PREFIX}invoices`) {
    return ok(path === '/' ? invoicePage(state, request.at) : billsOf(state, request.at));
  }
  if (path === `${CONTROL_PREFIX}unbilled`) return ok(unbilledEvents(state));
  if (path === `${CONTROL_PREFIX}account`) return ok(accountOf(state, request.at));
  if (!path.startsWith(API)) return notFound('resource');
  const segments = path.slice(API.length).split('/');
  const [resource = '', id, action] = segments.map(decodeURIComponent);
  // Rails treats text behind a dot as a format; only subscription routes accept dots.
  const cut = resource === 'customers' && segments[1]?.includes('.') === true;
  if (cut || segments.length > (resource === 'plans' ? 4 : 3)) return notFound('resource');
  const [, , , detail] = segments.map(decodeURIComponent);
  return dispatch(state, request, options, { resource, id, action, detail });
}

interface Target {
  readonly resource: string;
  readonly id: string | undefined;
  readonly action: string | undefined;
  /** The object of the action, such as the charge of a plan. */
  readonly detail: string | undefined;
}

function dispatch(
  state: LagoState,
  request: FakeRequest,
  options: FakeLagoOptions,
  { resource, id, action, detail }: Target,
): FakeResponse {
  const { at, query } = request;
  const rules = {
    store: options.store ?? 'postgres',
    batchMax: options.batchMax ?? DEFAULT_BATCH_MAX,
  };
  const shape = [
    request.method,
    resource,
    id === undefined ? '' : '*',
    action ?? '',
    detail === undefined ? '' : '*',
  ]
    .filter((part) => part !== '')
    .join(' ');
  const key = id ?? '';
  const withRoot = (
    root: string,
    act: (input: Readonly<Record<string, unknown>>) => FakeResponse,
  ): FakeResponse => {
    const input = readRoot(request.body, root);
    return isObject(input) ? act(input) : badRequest(`param is missing: ${root}`);
  };
  if (!isJson(request.body)) return badRequest('error occurred while parsing request parameters');
  if (shape === 'POST events *' && key === 'batch') {
    const input = readRoot(request.body, 'events');
    return createBatch(state, input, at, rules);
  }
  switch (shape) {
    case 'GET billable_metrics':
      return listMetrics(state, request);
    case 'POST billable_metrics':
      return withRoot('billable_metric', (input) => createMetric(state, input, at));
    case 'GET billable_metrics *':
      return showMetric(state, key);
    case 'PUT billable_metrics *':
      return withRoot('billable_metric', (input) => updateMetric(state, key, input));
    case 'GET plans':
      return listPlans(state, request);
    case 'POST plans':
      return withRoot('plan', (input) => createPlan(state, input, at));
    case 'GET plans *':
      return showPlan(state, key);
    case 'PUT plans *':
      return withRoot('plan', (input) => updatePlan(state, key, input));
    case 'GET plans * charges':
      return options.legacy === true ? notFound('resource') : listCharges(state, key, request);
    case 'POST plans * charges':
      if (options.legacy === true) return notFound('resource');
      return withRoot('charge', (input) => addCharge(state, key, input, at));
    case 'GET plans * charges *':
      return options.legacy === true ? notFound('resource') : showCharge(state, key, detail ?? '');
    case 'PUT plans * charges *':
      if (options.legacy === true) return notFound('resource');
      return withRoot('charge', (input) => updateCharge(state, key, detail ?? '', input));
    case 'GET customers':
      return listCustomers(state, request);
    case 'POST customers':
      return withRoot('customer', (input) => upsertCustomer(state, input, at));
    case 'GET customers *':
      return showCustomer(state, key);
    case 'DELETE customers *':
      return deleteCustomer(state, key, at);
    case 'GET customers * current_usage':
      return currentUsage(state, key, query.get('external_subscription_id'), at);
    case 'GET customers * subscriptions':
      return listSubscriptions(state, request, key);
    case 'GET subscriptions':
      return listSubscriptions(state, request);
    case 'POST subscriptions':
      return withRoot('subscription', (input) => createSubscription(state, input, at));
    case 'GET subscriptions *':
      return showSubscription(state, key, request);
    case 'DELETE subscriptions *':
      return terminateSubscription(state, key, request);
    case 'GET events':
      return listEvents(state, request);
    case 'POST events':
      return withRoot('event', (input) => createEvent(state, input, at, rules));
    case 'GET events *':
      return showEvent(state, key);
    default:
      return dispatchInvoices(state, request, shape, key, withRoot);
  }
}

/** Handles the routes of invoices. */
function dispatchInvoices(
  state: LagoState,
  request: FakeRequest,
  shape: string,
  key: string,
  withRoot: (
    root: string,
    act: (input: Readonly<Record<string, unknown>>) => FakeResponse,
  ) => FakeResponse,
): FakeResponse {
  const { at, query } = request;
  switch (shape) {
    case 'GET customers * past_usage':
      return pastUsage(state, key, query);
    case 'GET billing_entities *':
      return showBillingEntity(state, key);
    case 'GET invoices':
      return listInvoices(state, request);
    case 'POST invoices':
      return withRoot('invoice', (input) => createInvoice(state, input, at));
    case 'GET invoices *':
      return actOnInvoice(state, key, 'show', at);
    case 'PUT invoices *':
      return withRoot('invoice', (input) => updateInvoice(state, key, input, at));
    case 'PUT invoices * refresh':
      return actOnInvoice(state, key, 'refresh', at);
    case 'PUT invoices * finalize':
      return actOnInvoice(state, key, 'finalize', at);
    case 'POST invoices * void':
      return actOnInvoice(state, key, 'void', at);
    case 'GET fees':
      return listFees(state, request);
    case 'GET fees *':
      return showOneFee(state, key);
    case 'POST add_ons':
      return withRoot('add_on', (input) => createAddOn(state, input));
    case 'GET add_ons *':
      return showAddOn(state, key);
    case 'GET credit_notes':
      return listCreditNotes(state, request);
    case 'POST credit_notes *':
      if (key !== 'estimate') return notFound('resource');
      return withRoot('credit_note', (input) => estimateCreditNote(state, input));
    case 'POST credit_notes':
      return withRoot('credit_note', (input) => createCreditNote(state, input, at));
    default:
      return notFound('resource');
  }
}

function isJson(body: string): boolean {
  if (body === '') return true;
  try {
    JSON.parse(body);
    return true;
  } catch {
    return false;
  }
}

function readRoot(body: string, root: string): unknown {
  const parsed: unknown = body === '' ? undefined : JSON.parse(body);
  return isObject(parsed) ? parsed[root] : undefined;
}
