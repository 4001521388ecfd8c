import type { Secret } from '../../model/secret.ts';
import { retryAfterMs } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import {
  type ApiAnswer,
  type ApiList,
  type HttpHeaders,
  reasonOf,
  retryLater,
  type Vendor,
} from '../json-api/answer.ts';
import { JsonApi, listPages } from '../json-api/json-api.ts';
import { textOf } from '../json.ts';

const PAGE_SIZE = 100;
const MAX_PAGES = 500;
/** A reset above this is a moment since the epoch, not a number of seconds to wait. */
const EPOCH_SECONDS = 1_000_000_000;

const METRONOME: Vendor = {
  title: 'Metronome API',
  credential: 'API token',
  notTheirs: {
    kind: 'blocked',
    reason: 'the answer is not that of the Metronome API: check the URL',
  },
  // Ingest answers with an empty body, a search of events with a list.
  anySuccess: true,
  waitMs: (headers, _status, now) => rateLimitWaitMs(headers, now),
  temporary: (answer) => {
    const { status, headers } = answer;
    if (status === 401 || status === 403 || status === 429) return undefined;
    const isStatedToBe = headers['x-should-retry'] === 'true' && status >= 400;
    return status === 425 || isStatedToBe ? retryLater(answer) : undefined;
  },
  readRefusal: (answer) => {
    const { status, body: details = {} } = answer;
    const message = textOf(details, 'message');
    // A 404 without a message is not Metronome's.
    if (status === 404 && message === undefined) return METRONOME.notTheirs;
    const code = textOf(details, 'code') ?? '';
    return {
      kind: 'refused',
      status,
      code,
      details,
      reason: reasonOf(answer, code, message ?? ''),
    };
  },
  storesError: () => true,
};

/** Metronome's API. It makes one attempt for each call. */
export class MetronomeClient {
  readonly #api: JsonApi;

  constructor({
    name,
    url,
    apiToken,
    outbound,
    clock,
  }: {
    readonly name: string;
    readonly url: string;
    readonly apiToken: Secret;
    readonly outbound: Outbound;
    readonly clock: Clock;
  }) {
    this.#api = new JsonApi({
      name,
      url,
      credential: apiToken,
      outbound,
      clock,
      vendor: METRONOME,
      headers: { 'content-type': 'application/json' },
    });
  }

  get(path: string, signal: AbortSignal): Promise<ApiAnswer> {
    return this.#api.request({ method: 'GET', path, signal });
  }

  /** Queries, or makes a change that is harmless when repeated. */
  post(path: string, body: unknown, signal: AbortSignal): Promise<ApiAnswer> {
    return this.#api.request({ method: 'POST', path, body: JSON.stringify(body), signal });
  }

  /** Creates an object. Metronome recognises a repeat after a lost answer. */
  create(path: string, body: unknown, signal: AbortSignal): Promise<ApiAnswer> {
    return this.#api.create({ method: 'POST', path, body: JSON.stringify(body), signal });
  }

  /**
   * Returns every item of a list, by POST if there is a body. `unsized` lists choose the size of
   * their pages themselves.
   */
  list(
    path: string,
    body: unknown,
    signal: AbortSignal,
    paging: 'sized' | 'unsized' = 'sized',
  ): Promise<ApiList> {
    const separator = path.includes('?') ? '&' : '?';
    return listPages({
      what: path,
      field: 'data',
      maxPages: MAX_PAGES,
      fetch: (cursor) => {
        const query = new URLSearchParams({
          ...(paging === 'sized' && { limit: String(PAGE_SIZE) }),
          ...(cursor !== undefined && { next_page: cursor }),
        });
        const page = query.size === 0 ? path : `${path}${separator}${query.toString()}`;
        return body === undefined ? this.get(page, signal) : this.post(page, body, signal);
      },
      next: (answered) => textOf(answered, 'next_page'),
      notTheirs: METRONOME.notTheirs,
    });
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}

/**
 * Returns how long an answer asks to wait, milliseconds; undefined without such a header.
 * Metronome's own client obeys `Retry-After-Ms` and `Retry-After`. Gateways send the reset headers,
 * in seconds from now or since the epoch.
 */
function rateLimitWaitMs(headers: HttpHeaders, now: number): number | undefined {
  const ms = Number(headers['retry-after-ms'] ?? 'none');
  if (Number.isFinite(ms) && ms >= 0) return Math.ceil(ms);
  const requested = retryAfterMs(headers['retry-after'], now);
  if (requested !== undefined) return requested;
  const reset = headers['x-ratelimit-reset'] ?? headers['ratelimit-reset'];
  const seconds = Number(reset ?? 'none');
  if (!Number.isFinite(seconds) || seconds < 0) return undefined;
  return seconds >= EPOCH_SECONDS
    ? Math.max(0, Math.ceil(seconds * 1000 - now))
    : Math.ceil(seconds * 1000);
}
