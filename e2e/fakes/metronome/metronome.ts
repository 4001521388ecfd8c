import {
  CONTROL_PREFIX,
  type FakeRequest,
  type FakeResponse,
  type FakeServer,
  type RequestJournal,
  startFakeServer,
} from '../fake-server.ts';
import type { Account } from '../account.ts';
import { storedResult, storeResult } from '../idempotency.ts';
import { createWebhookSender, type WebhookSender } from '../webhook-sender.ts';
import { createTestClock, turnedBy } from '../test-clock.ts';
import { accountOf } from './account.ts';
import { listCustomerAlerts } from './alerts.ts';
import { isObject, objects, refused, UNAUTHORIZED } from './answers.ts';
import {
  archiveContract,
  createContract,
  editContract,
  listContracts,
  setContractEnd,
} from './contracts.ts';
import {
  archiveCustomer,
  createCustomer,
  getBillingProviders,
  listCustomers,
  setBillingProviders,
  setIngestAliases,
  setName,
  showCustomer,
} from './customers.ts';
import { ingest, searchEvents } from './ingest.ts';
import {
  listBreakdowns,
  listInvoices,
  regenerateInvoice,
  showInvoice,
  voidInvoice,
} from './invoice-routes.ts';
import { archiveMetric, createMetric, listMetrics, showMetric } from './metrics.ts';
import {
  addRates,
  createProduct,
  createRateCard,
  getRates,
  listCreditTypes,
  listProducts,
  listRateCards,
  updateProduct,
} from './pricing.ts';
import { createMetronomeState, type MetronomeRules, type MetronomeState } from './state.ts';
import { runUntil } from './statements.ts';
import { invoiceItems, listUsage } from './usage.ts';
import { METRONOME_WAITS, metronomeMessage, signWebhook } from './webhooks.ts';

const MINUTE_MS = 60_000;
const NOT_FOUND: FakeResponse = { status: 404, body: '' };

export interface FakeMetronomeOptions {
  readonly apiToken: string;
  readonly rules?: Partial<MetronomeRules>;
  readonly webhookSecret?: string;
  readonly journal?: RequestJournal;
  readonly keepsRequests?: boolean;
  readonly now?: () => number;
  /** Returns when a request arrived, for requests that carry their own time. */
  readonly timeOf?: (request: FakeRequest) => number;
  readonly port?: number;
}

export interface FakeMetronome extends FakeServer {
  readonly state: MetronomeState;
  /**
   * Sets the clock and finalizes statements that are due by then. The clock stands still
   * afterwards.
   */
  readonly turnTo: (at: number) => void;
  /** Returns the state of all usage. */
  readonly account: () => Account;
  readonly webhooks: WebhookSender;
}

/**
 * Starts a stateful stand-in for Metronome
 * (docs/how-to/destinations/metronome.md#how-metronome-answers):
 * - It remembers ids for 34 days, and refuses a call with one bad event without an index.
 * - Events may wait for an alias that no customer has yet.
 * - Metrics count only later events.
 * - It stores answers by idempotency key.
 * - Each contract and period has a statement that no event changes after its grace.
 */
export async function startFakeMetronome(options: FakeMetronomeOptions): Promise<FakeMetronome> {
  const state = createMetronomeState(options.rules);
  const clock = createTestClock(options.now);
  const sliceTo = (at: number): void => {
    clock.turnTo(at);
    runUntil(state, at);
  };
  const timed = (request: FakeRequest): FakeRequest => ({
    ...request,
    at: options.timeOf?.(request) ?? request.at,
  });
  const server = await startFakeServer({
    ...options,
    now: clock.now,
    authorize: ({ path, headers }) => {
      if (path.startsWith(CONTROL_PREFIX) || path === '/') return undefined;
      return headers['authorization'] === `Bearer ${options.apiToken}` ? undefined : UNAUTHORIZED;
    },
    handle: (given) => {
      const request = timed(given);
      runUntil(state, request.at);
      const turned = turnedBy(request, sliceTo);
      if (turned !== undefined) return turned;
      if (isTooOften(state, request)) return TOO_OFTEN;
      const stored = storedResult(state.results, request, request.at, KEY_REUSED);
      if (stored !== undefined) return stored;
      const response = route(state, request);
      storeResult(state.results, request, response, request.at);
      return response;
    },
    // Every answer to a key is stored, a 500 too.
    misbehaved: (given, { kind, status = 503, headers = {}, body }) => {
      const request = timed(given);
      if (kind.endsWith('status')) {
        storeResult(state.results, request, { status, headers, body }, request.at);
      }
    },
  });
  const webhooks = createWebhookSender({
    clock,
    turnTo: sliceTo,
    notices: () => state.notices.map(metronomeMessage),
    waits: METRONOME_WAITS,
    sign: (_body, { payload }, at) => ({
      ...signWebhook(options.webhookSecret ?? '', payload, new Date(at)).headers,
    }),
  });
  return {
    ...server,
    state,
    turnTo: sliceTo,
    account: () => accountOf(state, clock.now()),
    webhooks,
  };
}

const TOO_OFTEN: FakeResponse = { status: 429, body: { message: 'Rate limit exceeded' } };

/**
 * Returns whether a path was called for one customer more often than {@link
 * MetronomeRules.callsPerMinute} allows.
 */
function isTooOften({ rules, calls }: MetronomeState, { path, body, at }: FakeRequest): boolean {
  const customer =
    /"customer_id":"([^"]+)"/.exec(body)?.[1] ?? /^\/v1\/customers\/([^/]+)/.exec(path)?.[1];
  if (customer === undefined || path === '/v1/ingest') return false;
  const key = `${path} ${customer}`;
  const recent = [...(calls.get(key) ?? []), at].filter((one) => at - one < MINUTE_MS);
  calls.set(key, recent);
  return recent.length > rules.callsPerMinute;
}

const KEY_REUSED = refused(409, 'the idempotency key was used with other parameters');

function route(state: MetronomeState, request: FakeRequest): FakeResponse {
  const { method, path, at } = request;
  if (path === `${CONTROL_PREFIX}invoices`) return { status: 200, body: invoiceItems(state) };
  if (path === `${CONTROL_PREFIX}account`) return { status: 200, body: accountOf(state, at) };
  const parsed = parseBody(request);
  if (parsed === 'malformed') return refused(400, 'the body is not JSON');
  if (path === '/v1/ingest' && method === 'POST') return ingest(state, parsed, at);
  const input = isObject(parsed) ? parsed : {};
  const invoices = /^\/v1\/customers\/([^/]+)\/invoices(?:\/([^/]+))?$/.exec(path);
  if (invoices !== null && method === 'GET') {
    const [owner = '', id] = invoices.slice(1).map((part) => part && decodeURIComponent(part));
    if (id === 'breakdowns') return listBreakdowns(state, owner, request);
    return id === undefined
      ? listInvoices(state, owner, request)
      : showInvoice(state, owner, id, at);
  }
  const customer = /^\/v1\/customers\/([^/]+)(?:\/(\w+))?$/.exec(path);
  if (customer !== null) {
    const id = decodeURIComponent(customer[1] ?? '');
    if (method === 'GET' && customer[2] === undefined) return showCustomer(state, id);
    if (method === 'POST' && customer[2] === 'setIngestAliases') {
      return setIngestAliases(state, id, input);
    }
    if (method === 'POST' && customer[2] === 'setName') return setName(state, id, input);
    if (method === 'POST' && path === '/v1/customers/archive') {
      return archiveCustomer(state, input, at);
    }
    return NOT_FOUND;
  }
  const metric = /^\/v1\/billable-metrics\/([0-9a-f-]{36})$/.exec(path);
  if (metric !== null && method === 'GET') return showMetric(state, metric[1] ?? '');
  switch (`${method} ${path}`) {
    case 'GET /v1/services':
      return { status: 200, body: { services: [] } };
    case 'GET /v1/billable-metrics':
      return listMetrics(state, request);
    case 'POST /v1/billable-metrics/create':
      return createMetric(state, input, at);
    case 'POST /v1/billable-metrics/archive':
      return archiveMetric(state, input, at);
    case 'GET /v1/credit-types/list':
      return listCreditTypes(request);
    case 'POST /v1/contract-pricing/products/create':
      return createProduct(state, input, at);
    case 'POST /v1/contract-pricing/products/update':
      return updateProduct(state, input, at);
    case 'POST /v1/contract-pricing/products/list':
      return listProducts(state, request);
    case 'POST /v1/contract-pricing/rate-cards/create':
      return createRateCard(state, input, at);
    case 'POST /v1/contract-pricing/rate-cards/list':
      return listRateCards(state, request);
    case 'POST /v1/contract-pricing/rate-cards/addRate':
      return addRates(state, input['rate_card_id'], [input]);
    case 'POST /v1/contract-pricing/rate-cards/addRates':
      return addRates(state, input['rate_card_id'], objects(input['rates']));
    case 'POST /v1/contract-pricing/rate-cards/getRates':
      return getRates(state, input, request);
    case 'GET /v1/customers':
      return listCustomers(state, request);
    case 'POST /v1/customers':
      return createCustomer(state, input, at);
    case 'POST /v1/setCustomerBillingProviderConfigurations':
      return setBillingProviders(state, input);
    case 'POST /v1/getCustomerBillingProviderConfigurations':
      return getBillingProviders(state, input);
    case 'POST /v1/contracts/create':
      return createContract(state, input, at);
    case 'POST /v1/contracts/updateEndDate':
      return setContractEnd(state, input);
    case 'POST /v1/contracts/archive':
      return archiveContract(state, input, at);
    case 'POST /v2/contracts/list':
      return listContracts(state, input);
    case 'POST /v2/contracts/edit':
      return editContract(state, input, at);
    case 'POST /v1/usage':
      return listUsage(state, input, request);
    case 'POST /v1/invoices/void':
      return voidInvoice(state, input);
    case 'POST /v1/invoices/regenerate':
      return regenerateInvoice(state, input, at);
    case 'POST /v1/customer-alerts/list':
      return listCustomerAlerts(state, input, request);
    case 'POST /v1/events/search':
      return searchEvents(state, input);
    default:
      return NOT_FOUND;
  }
}

function parseBody({ method, body }: FakeRequest): unknown {
  if (method === 'GET' || body === '') return {};
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return 'malformed';
  }
}
