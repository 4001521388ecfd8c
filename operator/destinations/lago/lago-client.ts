import type { Secret } from '../../model/secret.ts';
import { retryAfterMs } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { FailedStep } from '../failed-step.ts';
import {
  type ApiAnswer,
  type ApiList,
  type ApiProblem,
  type ApiRefusal,
  type ErrorAnswer,
  failedStep as commonFailedStep,
  reasonOf,
  retryLater,
  type Vendor,
} from '../json-api/answer.ts';
import { type ApiRequest, JsonApi, listPages } from '../json-api/json-api.ts';
import { objectOf, textsOf } from '../json.ts';

const PAGE_SIZE = 100;
const MAX_PAGES = 500;
/**
 * 422 codes for temporary problems, not for the content of the request
 * (docs/how-to/destinations/lago.md#how-lago-answers).
 */
const TEMPORARY = new Set(['lock_acquisition_failed', 'provider_error', 'third_party_error']);
/** Lago's answer to an unknown path, and the reason reported when another server answers. */
const UNKNOWN_PATH = 'resource_not_found';
const NOT_LAGO = 'the answer is not that of a Lago API: check the URL';

const LAGO: Vendor = {
  title: 'lago-style API',
  credential: 'API key',
  notTheirs: { kind: 'blocked', reason: NOT_LAGO },
  waitMs: (headers, status, now) => {
    const reset = status === 429 ? headers['x-ratelimit-reset'] : undefined;
    return retryAfterMs(reset ?? headers['retry-after'], now);
  },
  temporary: (answer) =>
    answer.status !== 429 && TEMPORARY.has(codeOf(answer)) ? retryLater(answer) : undefined,
  missingPermission: (answer) => {
    const code = codeOf(answer);
    return code === '' ? 'a permission' : `a permission (${code})`;
  },
  readRefusal: (answer) => {
    const { status, body } = answer;
    const code = codeOf(answer);
    if (body === undefined || (status === 404 && (code === '' || code === UNKNOWN_PATH))) {
      return { kind: 'refused', status, code: UNKNOWN_PATH, details: {}, reason: NOT_LAGO };
    }
    const details = objectOf(body, 'error_details');
    const stated =
      Object.keys(details).length === 0 ? String(body['error']) : JSON.stringify(details);
    return { kind: 'refused', status, code, details, reason: reasonOf(answer, code, stated) };
  },
};

/** Lago's API, one attempt for each call. */
export class LagoClient {
  readonly #api: JsonApi;
  readonly #clock: Clock;
  #callsPerSecond: number | undefined;
  /** When the last call happened, or will happen, by the monotonic clock. */
  #lastCall = Number.NEGATIVE_INFINITY;

  constructor({
    name,
    url,
    apiKey,
    outbound,
    clock,
  }: {
    readonly name: string;
    readonly url: string;
    readonly apiKey: Secret;
    readonly outbound: Outbound;
    readonly clock: Clock;
  }) {
    this.#clock = clock;
    this.#api = new JsonApi({
      name,
      // Users write the address with and without this ending.
      url: url.replace(/\/api\/v1\/?$/, ''),
      credential: apiKey,
      outbound,
      clock,
      vendor: LAGO,
      headers: { 'content-type': 'application/json' },
      rateLimit: (path, signal) => this.#pace(path, signal),
      onAnswer: (headers) => {
        const limit = Number(headers['x-ratelimit-limit'] ?? 0);
        if (limit > 0) this.#callsPerSecond = limit;
      },
    });
  }

  call(
    method: ApiRequest['method'],
    path: string,
    body: unknown,
    signal: AbortSignal,
  ): Promise<ApiAnswer> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.#api.request({ method, path: `/api/v1${path}`, body: text, signal });
  }

  get(path: string, signal: AbortSignal): Promise<ApiAnswer> {
    return this.call('GET', path, undefined, signal);
  }

  /** Returns every item of a list. `path` has no `page`; `root` is the field with the items. */
  list(path: string, root: string, signal: AbortSignal): Promise<ApiList> {
    const separator = path.includes('?') ? '&' : '?';
    let page = 1;
    return listPages({
      what: root,
      field: root,
      maxPages: MAX_PAGES,
      fetch: () => this.get(`${path}${separator}page=${page}&per_page=${PAGE_SIZE}`, signal),
      next: (body) => {
        page += 1;
        return typeof objectOf(body, 'meta')['next_page'] === 'number' ? String(page) : undefined;
      },
      notTheirs: { kind: 'blocked', reason: `${NOT_LAGO}: no "${root}"` },
    });
  }

  /**
   * Spreads calls evenly below Lago's limit. Batches of events have a limit of their own, and wait
   * only after a refusal.
   */
  async #pace(path: string, signal: AbortSignal): Promise<void> {
    if (path === '/api/v1/events/batch') return;
    const now = this.#clock.monotonic();
    const intervalMs = 1_000 / (this.#callsPerSecond ?? Number.POSITIVE_INFINITY);
    const at = Math.max(now, this.#lastCall + intervalMs);
    this.#lastCall = at;
    if (at > now) await this.#clock.sleep(at - now, signal);
  }

  /** Calls a second that Lago allows, from its last answer. */
  callsPerSecond(): number | undefined {
    return this.#callsPerSecond;
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}

function codeOf({ body }: ErrorAnswer): string {
  return typeof body?.['code'] === 'string' ? body['code'] : '';
}

/** Returns whether a refusal reports that the code is taken. */
export function isTaken({ details }: ApiRefusal): boolean {
  return textsOf(details, 'code').includes('value_already_exist');
}

/** Translates an unexpected answer into a failed step. Unknown path: a wrong URL; else final. */
export function failedStep(answer: ApiProblem): FailedStep {
  const isWrongUrl = answer.kind === 'refused' && answer.code === UNKNOWN_PATH;
  return isWrongUrl ? { kind: 'blocked', reason: answer.reason } : commonFailedStep(answer);
}
