import type { Secret } from '../../model/secret.ts';
import { type HttpOutcome, type HttpResponse, isSuccess } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { isObject, type JsonObject, textOf } from '../json.ts';
import { createIdempotencyKeys } from './idempotency-keys.ts';
import { rateLimitWaitMs } from './rate-limit.ts';

const PAGE_SIZE = 100;
/** A list that is longer is not ours; half of one would be mistaken for all of it. */
const MAX_PAGES = 500;
const MAX_REASON = 300;

/** What Metronome answered, as far as it means the same for every call. */
export type MetronomeAnswer =
  | { readonly kind: 'ok'; readonly body: unknown }
  | MetronomeRefusal
  | MetronomeTrouble;

/** Refused for what was asked; what that means depends on the call. */
export interface MetronomeRefusal {
  readonly kind: 'refused';
  readonly status: number;
  /** Metronome's own word, where it has one. */
  readonly code: string;
  readonly reason: string;
}

/** Nothing can be said about what was asked. */
export type MetronomeTrouble =
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'hold'; readonly reason: string };

export type MetronomeList =
  | { readonly kind: 'list'; readonly items: readonly JsonObject[] }
  | MetronomeRefusal
  | MetronomeTrouble;

/** Metronome's API, one attempt for each call. */
export interface MetronomeClient {
  get(path: string, signal: AbortSignal): Promise<MetronomeAnswer>;
  /** Asks, or changes what may be changed twice without harm. */
  post(path: string, body: unknown, signal: AbortSignal): Promise<MetronomeAnswer>;
  /** Creates: an attempt whose answer was lost is recognised when it is made again. */
  create(path: string, body: unknown, signal: AbortSignal): Promise<MetronomeAnswer>;
  /** Every item of a list, page after page; with a body the list is asked for by POST. */
  list(path: string, body: unknown, signal: AbortSignal, paging?: Paging): Promise<MetronomeList>;
  close(): Promise<void>;
}

/** Some lists choose the size of their pages themselves. */
export type Paging = 'sized' | 'unsized';

export interface MetronomeClientOptions {
  readonly name: string;
  readonly url: string;
  readonly apiToken: Secret;
  readonly outbound: Outbound;
  readonly clock: Clock;
}

export function createMetronomeClient(options: MetronomeClientOptions): MetronomeClient {
  const client = options.outbound.client({
    name: options.name,
    baseUrl: options.url,
    headers: {
      authorization: `Bearer ${options.apiToken.reveal()}`,
      'content-type': 'application/json',
      accept: 'application/json',
    },
  });
  const keys = createIdempotencyKeys();

  const call = async (
    method: 'GET' | 'POST',
    path: string,
    body: unknown,
    signal: AbortSignal,
    idempotencyKey?: string,
  ): Promise<readonly [MetronomeAnswer, HttpOutcome]> => {
    const outcome = await client.request({
      method,
      path,
      signal,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(idempotencyKey !== undefined && { headers: { 'idempotency-key': idempotencyKey } }),
    });
    return [readAnswer(outcome, options.clock.now()), outcome];
  };

  return {
    get: async (path, signal) => (await call('GET', path, undefined, signal))[0],
    post: async (path, body, signal) => (await call('POST', path, body, signal))[0],
    create: async (path, body, signal) => {
      const action = `${path}\0${JSON.stringify(body)}`;
      const [answer, outcome] = await call('POST', path, body, signal, keys.of(action));
      // Metronome gives a stored answer again, errors included: what failed needs another key.
      if (outcome.kind === 'response' && !isSuccess(outcome.status)) keys.spend(action);
      return answer;
    },
    list: async (path, body, signal, paging = 'sized') => {
      const items: JsonObject[] = [];
      const separator = path.includes('?') ? '&' : '?';
      let cursor: string | undefined;
      for (let page = 1; page <= MAX_PAGES; page += 1) {
        const query = new URLSearchParams({
          ...(paging === 'sized' && { limit: String(PAGE_SIZE) }),
          ...(cursor !== undefined && { next_page: cursor }),
        });
        const paged = query.size === 0 ? path : `${path}${separator}${query.toString()}`;
        const method = body === undefined ? 'GET' : 'POST';
        const [answer] = await call(method, paged, body, signal);
        if (answer.kind !== 'ok') return answer;
        const found = isObject(answer.body) ? answer.body['data'] : undefined;
        if (!Array.isArray(found)) return { kind: 'hold', reason: NOT_METRONOME };
        items.push(...(found as unknown[]).filter(isObject));
        cursor = isObject(answer.body) ? textOf(answer.body, 'next_page') : undefined;
        if (cursor === undefined) return { kind: 'list', items };
      }
      return { kind: 'retry', reason: `the list at ${path} has more than ${MAX_PAGES} pages` };
    },
    close: () => client.close(),
  };
}

const NOT_METRONOME = 'the answer is not that of the Metronome API: check the URL';

function readAnswer(outcome: HttpOutcome, now: number): MetronomeAnswer {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'hold' : 'retry', reason: outcome.reason };
  }
  const { status, headers } = outcome;
  const body = parse(outcome.body);
  if (isSuccess(status)) return readSuccess(outcome, body);
  if (isPassing(outcome)) {
    const afterMs = rateLimitWaitMs(headers, now);
    const reason = status === 429 ? `${errorText(status)}: rate limit` : errorText(status);
    return { kind: 'retry', reason, ...(afterMs !== undefined && { afterMs }) };
  }
  if (status === 401) return { kind: 'hold', reason: `${errorText(status)}: check the API token` };
  if (status === 403) {
    return { kind: 'hold', reason: `${errorText(status)}: the API token lacks a permission` };
  }
  if (status < 400) {
    return { kind: 'hold', reason: `${errorText(status)}: redirects are not followed` };
  }
  const message = isObject(body) ? textOf(body, 'message') : undefined;
  // Whoever answers 404 without a message is not Metronome.
  if (status === 404 && message === undefined) return { kind: 'hold', reason: NOT_METRONOME };
  const code = (isObject(body) ? textOf(body, 'code') : undefined) ?? '';
  const said = [errorText(status), code, message].filter(
    (part) => part !== undefined && part !== '',
  );
  return { kind: 'refused', status, code, reason: said.join(': ').slice(0, MAX_REASON) };
}

/** Ingest answers with an empty body, every other call with JSON. */
function readSuccess(
  { body: text, complete, status }: HttpResponse,
  body: unknown,
): MetronomeAnswer {
  if (body !== undefined || (complete && text.trim() === '')) return { kind: 'ok', body };
  return complete
    ? { kind: 'hold', reason: NOT_METRONOME }
    : { kind: 'retry', reason: `${errorText(status)}: the answer broke off` };
}

/** Whether it is about the moment and not about what was sent; Metronome may say so itself. */
function isPassing({ status, headers }: HttpResponse): boolean {
  const said = headers['x-should-retry'];
  if (status === 401 || status === 403) return false;
  if (status === 408 || status === 425 || status === 429 || status >= 500) return true;
  return said === 'true' && status >= 400;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function errorText(status: number): string {
  return `Metronome API error ${status}`;
}

/** The object under `data`, as most answers have it. */
export function dataOf(answer: { readonly body: unknown }): JsonObject | undefined {
  const data = isObject(answer.body) ? answer.body['data'] : undefined;
  return isObject(data) ? data : undefined;
}
