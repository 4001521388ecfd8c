import type { Secret } from '../../model/secret.ts';
import { type HttpOutcome, type HttpResponse, isSuccess } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import { retryAfterMs } from '../../outbound/retry-after.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { isObject, type JsonObject, parseObject } from '../json.ts';

const PAGE_SIZE = 100;
/** A list that is longer is not ours; half of one would be mistaken for all of it. */
const MAX_PAGES = 500;
const MAX_REASON = 300;
const TOO_MANY_REQUESTS = 429;
/** 422 codes that are about the moment, not about what was sent (facts 1.1). */
const PASSING = new Set(['lock_acquisition_failed', 'provider_error', 'third_party_error']);

/** What Lago answered, as far as it means the same for every call. */
export type LagoAnswer =
  | { readonly kind: 'ok'; readonly body: JsonObject }
  | LagoRefusal
  | LagoTrouble;

/** Refused for what was asked; what that means depends on the call. */
export interface LagoRefusal {
  readonly kind: 'refused';
  readonly status: number;
  /** Lago's own word: `plan_not_found`, `validation_errors`, … */
  readonly code: string;
  readonly details: JsonObject;
  readonly reason: string;
}

/** Nothing can be said about what was asked. */
export type LagoTrouble =
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'hold'; readonly reason: string };

export type LagoList =
  | { readonly kind: 'list'; readonly items: readonly JsonObject[] }
  | LagoRefusal
  | LagoTrouble;

/** Lago's API, one attempt for each call. */
export interface LagoClient {
  call(method: LagoMethod, path: string, body: unknown, signal: AbortSignal): Promise<LagoAnswer>;
  get(path: string, signal: AbortSignal): Promise<LagoAnswer>;
  /** Every item of a list, page after page. `path` has no `page` in its query. */
  list(path: string, root: string, signal: AbortSignal): Promise<LagoList>;
  /** Calls a second that Lago allows, where its last answer said so. */
  callsPerSecond(): number | undefined;
  close(): Promise<void>;
}

export type LagoMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface LagoClientOptions {
  readonly name: string;
  readonly url: string;
  readonly apiKey: Secret;
  readonly outbound: Outbound;
  readonly clock: Clock;
}

export function createLagoClient(options: LagoClientOptions): LagoClient {
  const client = options.outbound.client({
    name: options.name,
    // Both spellings of the address are in use.
    baseUrl: options.url.replace(/\/api\/v1\/?$/, ''),
    headers: {
      authorization: `Bearer ${options.apiKey.reveal()}`,
      'content-type': 'application/json',
      accept: 'application/json',
    },
  });
  let callsPerSecond: number | undefined;
  const call: LagoClient['call'] = async (method, path, body, signal) => {
    const outcome = await client.request({
      method,
      path: `/api/v1${path}`,
      signal,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const limit = outcome.kind === 'response' ? outcome.headers['x-ratelimit-limit'] : undefined;
    if (limit !== undefined && Number(limit) > 0) callsPerSecond = Number(limit);
    return readAnswer(outcome, options.clock.now());
  };
  const get: LagoClient['get'] = (path, signal) => call('GET', path, undefined, signal);

  return {
    call,
    get,
    list: async (path, root, signal) => {
      const items: JsonObject[] = [];
      const separator = path.includes('?') ? '&' : '?';
      for (let page = 1; page <= MAX_PAGES; page += 1) {
        const query = `${separator}page=${page}&per_page=${PAGE_SIZE}`;
        const answer = await get(path + query, signal);
        if (answer.kind !== 'ok') return answer;
        const found = answer.body[root];
        if (!Array.isArray(found)) return { kind: 'hold', reason: `${NOT_LAGO}: no "${root}"` };
        items.push(...(found as unknown[]).filter(isObject));
        const meta = answer.body['meta'];
        const last = !isObject(meta) || typeof meta['next_page'] !== 'number';
        if (last) return { kind: 'list', items };
      }
      return { kind: 'retry', reason: `the list of ${root} has more than ${MAX_PAGES} pages` };
    },
    callsPerSecond: () => callsPerSecond,
    close: () => client.close(),
  };
}

const NOT_LAGO = 'the answer is not that of a Lago API: check the URL';

function readAnswer(outcome: HttpOutcome, now: number): LagoAnswer {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'hold' : 'retry', reason: outcome.reason };
  }
  const body = parseObject(outcome.body);
  const { status, headers } = outcome;
  if (isSuccess(status)) {
    if (body !== undefined) return { kind: 'ok', body };
    return outcome.complete
      ? { kind: 'hold', reason: NOT_LAGO }
      : { kind: 'retry', reason: `${errorText(status)}: the answer broke off` };
  }
  const code = typeof body?.['code'] === 'string' ? body['code'] : '';
  if (status === TOO_MANY_REQUESTS) {
    const wait = headers['x-ratelimit-reset'] ?? headers['retry-after'];
    const afterMs = retryAfterMs(wait, now);
    const reason = `${errorText(status)}: rate limit`;
    return { kind: 'retry', reason, ...(afterMs !== undefined && { afterMs }) };
  }
  if (status >= 500 || status === 408 || PASSING.has(code)) {
    const afterMs = retryAfterMs(headers['retry-after'], now);
    return { kind: 'retry', reason: errorText(status), ...(afterMs !== undefined && { afterMs }) };
  }
  return readRefusal(outcome, code, body);
}

function readRefusal(
  { status }: HttpResponse,
  code: string,
  body: JsonObject | undefined,
): LagoAnswer {
  if (status === 401) return { kind: 'hold', reason: `${errorText(status)}: check the API key` };
  if (status === 403) {
    const what = code === '' ? '' : ` (${code})`;
    const reason = `${errorText(status)}: the API key lacks a permission${what}`;
    return { kind: 'hold', reason };
  }
  if (status < 400) {
    return { kind: 'hold', reason: `${errorText(status)}: redirects are not followed` };
  }
  if (body === undefined || (status === 404 && (code === '' || code === 'resource_not_found'))) {
    const details = {};
    return { kind: 'refused', status, code: 'resource_not_found', details, reason: NOT_LAGO };
  }
  const details = isObject(body['error_details']) ? body['error_details'] : {};
  const said = Object.keys(details).length === 0 ? String(body['error']) : JSON.stringify(details);
  const reason = `${errorText(status)}: ${[code, said].filter(Boolean).join(': ')}`;
  return { kind: 'refused', status, code, details, reason: reason.slice(0, MAX_REASON) };
}

/** The form that spec 7 gives. */
function errorText(status: number): string {
  return `lago-style API error ${status}`;
}

/** Whether a refusal says of a field that its value is taken. */
export function isTaken(refusal: LagoRefusal, field: string): boolean {
  const said = refusal.details[field];
  return Array.isArray(said) && said.includes('value_already_exist');
}
