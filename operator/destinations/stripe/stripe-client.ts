import { isRecord } from '../../model/is-record.ts';
import type { Secret } from '../../model/secret.ts';
import { redactPath } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import {
  type ApiAnswer,
  type ApiList,
  type ErrorAnswer,
  reasonOf,
  retryLater,
  type Vendor,
} from '../json-api/answer.ts';
import { type ApiRequest, JsonApi, listPages } from '../json-api/json-api.ts';
import { objectOf, textOf } from '../json.ts';

const PAGE_SIZE = 100;
const MAX_PAGES = 1_000;
const CONNECTIONS = 32;
const METER_EVENTS = '/v1/billing/meter_events';
/** The wait while another call about the same object is under way. */
const CONFLICT_WAIT_MS = 1_000;

/** Test mode with BILLING_A_MAX_RPS = 0 (docs/how-to/destinations/stripe.md#how-stripe-answers). */
const TEST_MODE_RPS = 20;
const LIVE_RPS = 200;
/** Stripe allows 25 requests a second for each other operation. */
const OTHER_RPS = 20;
/** Requests that may go out at once after a pause, in milliseconds of the rate. */
const BURST_MS = 250;

/** Permissions of a restricted key, as Stripe names them, by the beginning of the path. */
const RESOURCES: readonly (readonly [path: string, name: string])[] = [
  ['/v1/billing/meter_events', 'Meter events'],
  ['/v2/billing/meter_event_session', 'Meter events'],
  ['/v1/billing/meters', 'Meters'],
  ['/v1/credit_notes', 'Credit notes'],
  ['/v1/customers', 'Customers'],
  ['/v1/invoice', 'Invoices'],
  ['/v1/prices', 'Prices'],
  ['/v1/subscription', 'Subscriptions'],
  ['/v2/core/events', 'Events'],
];

/** How Stripe's answers are read (docs/how-to/destinations/stripe.md#how-stripe-answers). */
export const STRIPE: Vendor = {
  title: 'Stripe API',
  credential: 'API key',
  notTheirs: { kind: 'blocked', reason: 'the answer is not that of the Stripe API: check the URL' },
  temporary: (answer) => {
    const { status, headers, title, waitMs = CONFLICT_WAIT_MS } = answer;
    if (status === 429) {
      const limiter = headers['stripe-rate-limited-reason'];
      const which = limiter === undefined ? '' : ` (${limiter.slice(0, 60)})`;
      return retryLater(answer, `rate limit${which}`);
    }
    if (status !== 409) return undefined;
    const reason = `${title}: another request for the same object is under way`;
    return { kind: 'retry', reason, afterMs: waitMs, cause: 'conflict' };
  },
  missingPermission,
  readRefusal: (answer) => {
    const { status, headers, body } = answer;
    const details = body?.['error'];
    if (!isRecord(details)) return STRIPE.notTheirs;
    const stated = textOf(details, 'message') ?? '';
    if (headers['stripe-should-retry'] === 'true') {
      return { kind: 'retry', reason: reasonOf(answer, stated) };
    }
    const code = textOf(details, 'code') ?? '';
    return { kind: 'refused', status, code, details, reason: reasonOf(answer, code, stated) };
  },
  storesError: (answer, status) =>
    status >= 500 ||
    (answer.kind === 'refused' && textOf(answer.details, 'type') === 'idempotency_error'),
};

export interface StripeClientOptions {
  readonly name: string;
  readonly url: string;
  readonly apiKey: Secret;
  readonly apiVersion: string;
  readonly maxRequestsPerSecond: number;
  readonly outbound: Outbound;
  readonly clock: Clock;
}

/** Stripe's API. It makes one attempt for each request. */
export class StripeClient {
  /** Meter events that may be sent in a second. */
  readonly eventsPerSecond: number;
  readonly #api: JsonApi;

  constructor(options: StripeClientOptions) {
    const { name, url, apiKey, apiVersion, outbound, clock } = options;
    const limits = createRateLimits(apiKey.reveal(), options.maxRequestsPerSecond, clock);
    this.eventsPerSecond = limits.perSecond;
    this.#api = new JsonApi({
      name,
      url,
      credential: apiKey,
      outbound,
      clock,
      vendor: STRIPE,
      headers: { 'stripe-version': apiVersion },
      bodyType: 'application/x-www-form-urlencoded',
      connections: CONNECTIONS,
      rateLimit: (path, signal) =>
        path === METER_EVENTS ? limits.meterEvents(signal) : limits.others(signal),
    });
  }

  get(path: string, params: Params, signal: AbortSignal): Promise<ApiAnswer> {
    return this.#api.request({ method: 'GET', path: withQuery(path, params), signal });
  }

  /** Every object of a list. */
  list(path: string, params: Params, signal: AbortSignal): Promise<ApiList> {
    return listPages({
      what: path,
      field: 'data',
      maxPages: MAX_PAGES,
      fetch: (after) =>
        this.get(path, { ...params, limit: PAGE_SIZE, starting_after: after }, signal),
      next: (body, items) => {
        const last = items.at(-1);
        return body['has_more'] === true && last !== undefined ? textOf(last, 'id') : undefined;
      },
      notTheirs: STRIPE.notTheirs,
    });
  }

  /**
   * Creates an object, at most once a day for the same parameters. `action` replaces the parameters
   * where they do not distinguish two requests.
   */
  create(path: string, params: Params, signal: AbortSignal, action?: string): Promise<ApiAnswer> {
    return this.#api.create(post(path, params, signal), action);
  }

  /** Lets the next `create` with these parameters make a new object, once the earlier is gone. */
  makeAgain(path: string, params: Params): void {
    this.#api.makeAgain({ path, body: encodeForm(params) });
  }

  /** Sets an object's fields; a repeat is harmless. */
  update(path: string, params: Params, signal: AbortSignal): Promise<ApiAnswer> {
    return this.#api.request(post(path, params, signal));
  }

  delete(path: string, params: Params, signal: AbortSignal): Promise<ApiAnswer> {
    return this.#api.request({ method: 'DELETE', path: withQuery(path, params), signal });
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}

/**
 * Returns the permission that a key lacks. Stripe's text names it by a code. The text itself is not
 * passed on, since it shows parts of the key.
 */
function missingPermission({ method, path, body }: ErrorAnswer): string {
  const resource = RESOURCES.find(([prefix]) => path.startsWith(prefix))?.[1] ?? redactPath(path);
  const access = method === 'GET' ? 'read' : 'write';
  const stated = textOf(objectOf(body ?? {}, 'error'), 'message') ?? '';
  const code = /'(rak_[a-z0-9_]+)'/.exec(stated)?.[1];
  return `"${resource}: ${access}"${code === undefined ? '' : ` (${code})`}`;
}

/** Resolves when the next request may go out. Rejects with the signal's reason. */
type RateLimiter = (signal: AbortSignal) => Promise<void>;

/** Returns a limiter to some requests a second, evenly spaced and in the order of the calls. */
export function createRateLimiter(perSecond: number, clock: Clock): RateLimiter {
  const interval = 1000 / perSecond;
  let next = Number.NEGATIVE_INFINITY;
  return async (signal) => {
    const now = clock.monotonic();
    const at = Math.max(next, now - BURST_MS);
    next = at + interval;
    if (at > now) await clock.sleep(at - now, signal);
  };
}

/** Returns whether a key bills for real (https://docs.stripe.com/keys#api-key-prefixes). */
export function isLive(apiKey: Secret): boolean {
  return /^[a-z]+_live_/.test(apiKey.reveal());
}

/**
 * Returns the rate limiters. In live mode Stripe limits meter events separately from other
 * requests; in test mode it counts both together.
 */
export function createRateLimits(apiKey: string, maxRequestsPerSecond: number, clock: Clock) {
  const testMode = /^[a-z]+_test_/.test(apiKey);
  const automatic = testMode ? TEST_MODE_RPS : LIVE_RPS;
  const perSecond = maxRequestsPerSecond === 0 ? automatic : maxRequestsPerSecond;
  const meterEvents = createRateLimiter(perSecond, clock);
  const others = testMode ? meterEvents : createRateLimiter(Math.min(OTHER_RPS, perSecond), clock);
  return { perSecond, meterEvents, others };
}

/** Request parameters: nested objects and arrays of scalars. Undefined values are left out. */
export interface Params {
  readonly [key: string]: Param;
}

type Param = string | number | boolean | undefined | Params | readonly Params[] | readonly string[];

function post(path: string, params: Params, signal: AbortSignal): ApiRequest {
  return { method: 'POST', path, body: encodeForm(params), signal };
}

function withQuery(path: string, params: Params): string {
  const form = encodeForm(params);
  return form === '' ? path : `${path}?${form}`;
}

/**
 * Encodes parameters in Stripe's form (https://docs.stripe.com/api): `payload[value]=1`,
 * `items[0][price]=p`. Brackets stay, everything else is percent-encoded.
 */
export function encodeForm(params: Params): string {
  return Object.entries(params)
    .flatMap(([key, value]) => fieldsOf(encodeURIComponent(key), value))
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&');
}

function fieldsOf(name: string, value: Param): readonly (readonly [string, string])[] {
  if (value === undefined) return [];
  if (typeof value !== 'object') return [[name, String(value)]];
  return Object.entries(value as Readonly<Record<string, Param>>).flatMap(([key, inner]) =>
    fieldsOf(`${name}[${encodeURIComponent(key)}]`, inner),
  );
}
