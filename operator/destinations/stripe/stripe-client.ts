import type { Secret } from '../../model/secret.ts';
import { type HttpOutcome, type HttpResponse, isSuccess } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import { retryAfterMs } from '../../outbound/retry-after.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { isObject, type JsonObject, objectsOf, parseObject, textOf } from '../json.ts';
import { encodeForm, type Params } from './form.ts';
import { actionOf, createIdempotencyKeys } from './idempotency-keys.ts';
import { missingPermission } from './permissions.ts';
import { createRateLimits } from './rate-limits.ts';

const PAGE_SIZE = 100;
/** A list that is longer is not ours to read; half of one would be mistaken for all of it. */
const MAX_PAGES = 1_000;
const MAX_REASON = 300;
const CONNECTIONS = 32;
const METER_EVENTS = '/v1/billing/meter_events';
/** While another call about the same thing is under way. */
const CONFLICT_WAIT_MS = 1_000;

/** What Stripe answered, as far as it means the same for every request. */
export type StripeAnswer =
  | { readonly kind: 'ok'; readonly body: JsonObject; readonly replayed: boolean }
  | StripeRefusal
  | StripeTrouble;

/** Refused for what was asked; what that means depends on the request. */
export interface StripeRefusal {
  readonly kind: 'refused';
  readonly status: number;
  /** Stripe's own word, such as `resource_missing`; often empty. */
  readonly code: string;
  /** `invalid_request_error`, as a rule. */
  readonly type: string;
  /** Stripe's own text. */
  readonly said: string;
  readonly reason: string;
}

/** Nothing can be said about what was asked. */
export type StripeTrouble =
  | {
      readonly kind: 'retry';
      readonly reason: string;
      readonly afterMs?: number;
      /**
       * `conflict`: only this request is concerned, others may go on; `failure`: Stripe itself failed,
       * and may have stored that under the idempotency key.
       */
      readonly cause?: 'conflict' | 'failure';
    }
  | { readonly kind: 'hold'; readonly reason: string };

export type StripeList =
  | { readonly kind: 'list'; readonly items: readonly JsonObject[] }
  | StripeRefusal
  | StripeTrouble;

/** Stripe's API, one attempt for each request. */
export interface StripeClient {
  /** Meter events that may be sent in a second. */
  readonly eventsPerSecond: number;
  get(path: string, params: Params, signal: AbortSignal): Promise<StripeAnswer>;
  /** Every object of a list, page after page. */
  list(path: string, params: Params, signal: AbortSignal): Promise<StripeList>;
  /**
   * Makes something, at most once for the same parameters in a day; `action` takes the place of the
   * parameters where something else tells two requests apart.
   */
  create(path: string, params: Params, signal: AbortSignal, action?: string): Promise<StripeAnswer>;
  /** What was made by these parameters is no more: the next `create` makes it anew. */
  makeAnew(path: string, params: Params): void;
  /** Changes something to what it should be, which may be said twice. */
  update(path: string, params: Params, signal: AbortSignal): Promise<StripeAnswer>;
  delete(path: string, params: Params, signal: AbortSignal): Promise<StripeAnswer>;
  close(): Promise<void>;
}

export interface StripeClientOptions {
  readonly name: string;
  readonly url: string;
  readonly apiKey: Secret;
  readonly apiVersion: string;
  readonly maxRequestsPerSecond: number;
  readonly outbound: Outbound;
  readonly clock: Clock;
}

export function createStripeClient(options: StripeClientOptions): StripeClient {
  const { clock } = options;
  const apiKey = options.apiKey.reveal();
  const limits = createRateLimits(apiKey, options.maxRequestsPerSecond, clock);
  const keys = createIdempotencyKeys();
  const http = options.outbound.client({
    name: options.name,
    baseUrl: options.url,
    connections: CONNECTIONS,
    headers: {
      authorization: `Bearer ${apiKey}`,
      'stripe-version': options.apiVersion,
      accept: 'application/json',
    },
  });

  const send = async (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    form: string,
    signal: AbortSignal,
    idempotencyKey?: string,
  ): Promise<StripeAnswer> => {
    const pace = path === METER_EVENTS ? limits.meterEvents : limits.others;
    try {
      await pace(signal);
    } catch {
      return { kind: 'retry', reason: `HTTP ${method} ${path}: stopped` };
    }
    const posts = method === 'POST';
    const outcome = await http.request({
      method,
      path: posts || form === '' ? path : `${path}?${form}`,
      signal,
      ...(posts && { body: form }),
      headers: {
        ...(posts && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
    });
    return readAnswer(outcome, method, path, clock.now());
  };

  const get: StripeClient['get'] = (path, params, signal) =>
    send('GET', path, encodeForm(params), signal);

  return {
    eventsPerSecond: limits.perSecond,
    get,
    list: async (path, params, signal) => {
      const found: JsonObject[] = [];
      let after: string | undefined;
      for (let page = 1; page <= MAX_PAGES; page += 1) {
        const paging = { limit: PAGE_SIZE, starting_after: after };
        const answer = await get(path, { ...params, ...paging }, signal);
        if (answer.kind !== 'ok') return answer;
        if (!Array.isArray(answer.body['data'])) return NOT_STRIPE;
        const data = objectsOf(answer.body, 'data');
        found.push(...data);
        const last = data.at(-1);
        after = last === undefined ? undefined : textOf(last, 'id');
        if (answer.body['has_more'] !== true || after === undefined) {
          return { kind: 'list', items: found };
        }
      }
      return { kind: 'retry', reason: `the list ${path} has more than ${MAX_PAGES} pages` };
    },
    create: async (path, params, signal, action) => {
      const form = encodeForm(params);
      const named = action ?? actionOf(path, form);
      const answer = await send('POST', path, form, signal, keys.of(named));
      if (answer.kind === 'ok' && action !== undefined) keys.forget(named);
      if (isSpent(answer)) keys.spend(named);
      return answer;
    },
    makeAnew: (path, params) => keys.spend(actionOf(path, encodeForm(params))),
    update: (path, params, signal) => send('POST', path, encodeForm(params), signal),
    delete: (path, params, signal) => send('DELETE', path, encodeForm(params), signal),
    close: () => http.close(),
  };
}

const NOT_STRIPE: StripeTrouble = {
  kind: 'hold',
  reason: 'the answer is not that of the Stripe API: check the URL',
};

/** A failure that Stripe may have stored under the key, or a key that was used for something else. */
function isSpent(answer: StripeAnswer): boolean {
  if (answer.kind === 'retry') return answer.cause === 'failure';
  return answer.kind === 'refused' && answer.type === 'idempotency_error';
}

function readAnswer(outcome: HttpOutcome, method: string, path: string, now: number): StripeAnswer {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'hold' : 'retry', reason: outcome.reason };
  }
  const { status, headers } = outcome;
  const body = parseObject(outcome.body);
  if (isSuccess(status)) {
    const replayed = headers['idempotent-replayed'] === 'true';
    if (body !== undefined) return { kind: 'ok', body, replayed };
    if (outcome.complete) return NOT_STRIPE;
    return { kind: 'retry', reason: `HTTP ${method} ${path}: the answer broke off` };
  }
  const wait = retryAfterMs(headers['retry-after'], now);
  const afterMs = wait === undefined ? {} : { afterMs: wait };
  if (status === 429) {
    const limiter = headers['stripe-rate-limited-reason'];
    const which = limiter === undefined ? '' : ` (${limiter.slice(0, 60)})`;
    return { kind: 'retry', reason: `${errorText(status)}: rate limit${which}`, ...afterMs };
  }
  if (status >= 500) {
    return { kind: 'retry', reason: errorText(status), cause: 'failure', ...afterMs };
  }
  if (status === 408) return { kind: 'retry', reason: errorText(status), ...afterMs };
  if (status === 409) {
    const reason = `${errorText(status)}: another request about the same is under way`;
    return { kind: 'retry', reason, afterMs: wait ?? CONFLICT_WAIT_MS, cause: 'conflict' };
  }
  return readRefusal(outcome, body, method, path);
}

function readRefusal(
  { status, headers }: HttpResponse,
  body: JsonObject | undefined,
  method: string,
  path: string,
): StripeAnswer {
  const error = body !== undefined && isObject(body['error']) ? body['error'] : undefined;
  const said = (error && textOf(error, 'message')) ?? '';
  if (status === 401) return { kind: 'hold', reason: `${errorText(status)}: check the API key` };
  if (status === 403) {
    const permission = missingPermission(method, path, said);
    return { kind: 'hold', reason: `${errorText(status)}: the API key lacks ${permission}` };
  }
  if (status < 400) {
    return { kind: 'hold', reason: `${errorText(status)}: redirects are not followed` };
  }
  if (error === undefined) return NOT_STRIPE;
  if (headers['stripe-should-retry'] === 'true') {
    return { kind: 'retry', reason: `${errorText(status)}: ${said}`.slice(0, MAX_REASON) };
  }
  const code = textOf(error, 'code') ?? '';
  const type = textOf(error, 'type') ?? '';
  const words = [errorText(status), code, said].filter((word) => word !== '').join(': ');
  return { kind: 'refused', status, code, type, said, reason: words.slice(0, MAX_REASON) };
}

function errorText(status: number): string {
  return `Stripe API error ${status}`;
}
