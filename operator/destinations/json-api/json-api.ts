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

export interface JsonApiOptions {
  /** Of the destination, for metrics. */
  readonly name: string;
  readonly url: string;
  readonly credential: Secret;
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly vendor: Vendor;
  /** Sent with every request, beside the credential. */
  readonly headers: HttpHeaders;
  /** Media type of bodies, for vendors that want none on requests without a body. */
  readonly bodyType?: string;
  readonly connections?: number;
  /** Waits for the rate limit before each request. Rejects when the signal aborts. */
  readonly rateLimit?: (path: string, signal: AbortSignal) => Promise<void>;
  /** The headers of every answer. */
  readonly onAnswer?: (headers: HttpHeaders) => void;
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With its query. */
  readonly path: string;
  /** Encoded; absent for none. */
  readonly body?: string | undefined;
  /** Instead of the API's own. */
  readonly credential?: Secret | undefined;
  readonly signal: AbortSignal;
}

/** A billing system's API: one attempt for each request, every answer read by the same rules. */
export class JsonApi {
  readonly #options: JsonApiOptions;
  readonly #http: HttpClient;
  /** How many idempotency keys of an action cannot be used again. */
  readonly #spentKeys = new Map<string, number>();

  constructor(options: JsonApiOptions) {
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
   * Makes something at most once. Its idempotency key is made of the request alone, so that it is the
   * same after a crash; `action` is the key where something else tells two requests apart.
   */
  async create(request: ApiRequest, action?: string): Promise<ApiAnswer> {
    const named = action ?? actionOf(request);
    const count = this.#spentKeys.get(named) ?? 0;
    const { answer, status } = await this.#send(
      request,
      count === 0 ? named : `${named}-${count + 1}`,
    );
    // A key of the caller's own is not needed again; the others are those of what may be lost again.
    if (answer.kind === 'ok' && action !== undefined) this.#spentKeys.delete(named);
    const isError = status !== undefined && !isSuccess(status) && answer.kind !== 'ok';
    if (isError && this.#options.vendor.storesError?.(answer, status) === true) this.#spend(named);
    return answer;
  }

  /** What the request made is no more: the next `create` makes it anew. */
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

export interface Pages {
  /** What is listed, in reasons: `subscriptions`. */
  readonly what: string;
  /** The field that holds a page's items. */
  readonly field: string;
  /** Longer lists are not ours; half of one would be mistaken for all of it. */
  readonly maxPages: number;
  readonly fetch: (cursor: string | undefined) => Promise<ApiAnswer>;
  /** Where the next page begins; undefined after the last. */
  readonly next: (body: JsonObject, items: readonly JsonObject[]) => string | undefined;
  readonly notTheirs: ApiFailure;
}

/** Every item of a list, page after page. */
export async function listPages(pages: Pages): Promise<ApiList> {
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

/** The name of an action that consists of a request. */
function actionOf({ path, body = '' }: Pick<ApiRequest, 'path' | 'body'>): string {
  const digest = createHash('sha256').update(`${path}\0${body}`).digest('hex').slice(0, 40);
  return `meterfeed-${digest}`;
}
