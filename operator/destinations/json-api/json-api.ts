import { createHash } from 'node:crypto';
import { isRecord } from '../../model/is-record.ts';
import type { Secret } from '../../model/secret.ts';
import { type HttpClient, isSuccess, redactPath } from '../../outbound/http-client.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { JsonObject } from '../json.ts';
import {
  type ApiAnswer,
  type ApiFailure,
  type ApiList,
  type HttpHeaders,
  readAnswer,
  type Vendor,
} from './answer.ts';

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The path with its query. */
  readonly path: string;
  /** The encoded body; absent for none. */
  readonly body?: string;
  /** Replaces the API's own credential. */
  readonly credential?: Secret;
  readonly signal: AbortSignal;
}

/** A billing system's API: one attempt for each request, and one set of rules for all answers. */
export class JsonApi {
  readonly #options;
  readonly #http: HttpClient;
  /** The number of used-up idempotency keys, by action. */
  readonly #spentKeys = new Map<string, number>();

  constructor(options: {
    /** The name of the destination, for metrics. */
    readonly name: string;
    readonly url: string;
    readonly credential: Secret;
    readonly outbound: Outbound;
    readonly clock: Clock;
    readonly vendor: Vendor;
    /** Headers of every request, beside the credential. */
    readonly headers: HttpHeaders;
    /** Media type of bodies, for vendors that accept none on requests without a body. */
    readonly bodyType?: string;
    readonly connections?: number;
    /** Waits for the rate limit before each request. Rejects when the signal aborts. */
    readonly rateLimit?: (path: string, signal: AbortSignal) => Promise<void>;
    /** Receives the headers of every answer. */
    readonly onAnswer?: (headers: HttpHeaders) => void;
  }) {
    const { name, url, outbound, connections } = options;
    this.#options = options;
    this.#http = outbound.client({
      name,
      baseUrl: url,
      headers: {
        authorization: `Bearer ${options.credential.reveal()}`,
        accept: 'application/json',
        ...options.headers,
      },
      connections,
    });
  }

  async request(request: ApiRequest): Promise<ApiAnswer> {
    const { answer } = await this.#send(request);
    return answer;
  }

  /**
   * Creates an object at most once. The idempotency key depends on the request alone, so it
   * survives a crash. `action` replaces the key where the request does not distinguish two actions.
   */
  async create(request: ApiRequest, action?: string): Promise<ApiAnswer> {
    const named = action ?? actionOf(request);
    const count = this.#spentKeys.get(named) ?? 0;
    const { answer, status } = await this.#send(
      request,
      count === 0 ? named : `${named}-${count + 1}`,
    );
    // A caller's own key is not needed again. Keys of requests stay: the created object may be lost
    // again.
    if (answer.kind === 'ok' && action !== undefined) this.#spentKeys.delete(named);
    const isError = status !== undefined && !isSuccess(status) && answer.kind !== 'ok';
    if (isError && this.#options.vendor.storesError?.(answer, status) === true) this.#spend(named);
    return answer;
  }

  /** Lets the next `create` of this request make a new object, once the earlier one disappeared. */
  makeAgain(request: Pick<ApiRequest, 'path' | 'body'>): void {
    this.#spend(actionOf(request));
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #spend(action: string): void {
    this.#spentKeys.set(action, (this.#spentKeys.get(action) ?? 0) + 1);
  }

  async #send(
    { method, path, body, credential, signal }: ApiRequest,
    idempotencyKey?: string,
  ): Promise<{ readonly answer: ApiAnswer; readonly status?: number }> {
    const { clock, vendor, bodyType, rateLimit, onAnswer } = this.#options;
    try {
      await rateLimit?.(path, signal);
    } catch {
      const reason = `HTTP ${method} ${redactPath(path)}: stopped`;
      return { answer: { kind: 'retry', reason } };
    }
    const outcome = await this.#http.request({
      method,
      path,
      signal,
      body,
      headers: {
        ...(body !== undefined && bodyType !== undefined && { 'content-type': bodyType }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
        ...(credential !== undefined && { authorization: `Bearer ${credential.reveal()}` }),
      },
    });
    const answer = readAnswer(vendor, { method, path }, outcome, clock.now());
    if (outcome.kind === 'failed') return { answer };
    onAnswer?.(outcome.headers);
    return { answer, status: outcome.status };
  }
}

/** Returns every item of a list, page after page. */
export async function listPages(pages: {
  /** The items' name in reasons, such as `subscriptions`. */
  readonly what: string;
  /** The field with a page's items. */
  readonly field: string;
  /** A longer list is an error: half of a list would be mistaken for all of it. */
  readonly maxPages: number;
  readonly fetch: (cursor: string | undefined) => Promise<ApiAnswer>;
  /** Returns where the next page begins; undefined after the last. */
  readonly next: (body: JsonObject, items: readonly JsonObject[]) => string | undefined;
  readonly notTheirs: ApiFailure;
}): Promise<ApiList> {
  const items: JsonObject[] = [];
  let cursor: string | undefined;
  for (let page = 1; page <= pages.maxPages; page += 1) {
    const answer = await pages.fetch(cursor);
    if (answer.kind !== 'ok') return answer;
    const found = answer.body[pages.field];
    if (!Array.isArray(found)) return pages.notTheirs;
    const objects = (found as unknown[]).filter(isRecord);
    for (const object of objects) items.push(object);
    cursor = pages.next(answer.body, objects);
    if (cursor === undefined) return { kind: 'list', items };
  }
  return {
    kind: 'retry',
    reason: `the list of ${pages.what} has more than ${pages.maxPages} pages`,
  };
}

/** Returns the name of the action that a request stands for. */
function actionOf({ path, body = '' }: Pick<ApiRequest, 'path' | 'body'>): string {
  const digest = createHash('sha256').update(`${path}\0${body}`).digest('hex').slice(0, 40);
  return `meterfeed-${digest}`;
}
