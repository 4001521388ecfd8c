import { isRecord } from '../../model/is-record.ts';
import { jsonShape } from '../../model/json-shape.ts';
import {
  type HttpOutcome,
  type HttpRequest,
  isSuccess,
  redactPath,
  retryAfterMs,
} from '../../outbound/http-client.ts';
import type { FailedStep } from '../failed-step.ts';
import type { JsonObject } from '../json.ts';

const MAX_REASON = 300;

/** What a billing system answered, as far as it means the same for every request. */
export type ApiAnswer = ApiSuccess | ApiProblem;
export type ApiProblem = ApiRefusal | ApiFailure;

export interface ApiSuccess {
  readonly kind: 'ok';
  /** The object that was answered; empty when the answer is none. */
  readonly body: JsonObject;
  /** Whatever JSON was answered; undefined when the answer is empty. */
  readonly value: unknown;
  readonly headers: HttpHeaders;
}

/** Refused for what was asked; what that means depends on the request. */
export interface ApiRefusal {
  readonly kind: 'refused';
  readonly status: number;
  /** The vendor's own word, such as `plan_not_found`; may be empty. */
  readonly code: string;
  /** The vendor's own account of it. */
  readonly details: JsonObject;
  readonly reason: string;
}

/** Nothing can be said about what was asked. */
export type ApiFailure =
  | {
      readonly kind: 'retry';
      readonly reason: string;
      readonly afterMs?: number;
      /**
       * `conflict`: only this request is concerned, others may go on. `session`: a credential that does not last
       * is over, and nothing was taken.
       */
      readonly cause?: 'conflict' | 'session';
    }
  | { readonly kind: 'hold'; readonly reason: string };

export type ApiList = { readonly kind: 'list'; readonly items: readonly JsonObject[] } | ApiProblem;

export type HttpHeaders = Readonly<Record<string, string>>;

/** An answer whose status is none of the 2xx. */
export interface ErrorAnswer {
  readonly method: HttpRequest['method'];
  readonly path: string;
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Undefined when the answer is no JSON object. */
  readonly body: JsonObject | undefined;
  /** The beginning of every reason: such as `<name> API error 429`. */
  readonly title: string;
  /** Milliseconds that it asks to wait. */
  readonly waitMs: number | undefined;
}

/** What a vendor's answers have that others' have not. */
export interface Vendor {
  /** The name of the API, in reasons. */
  readonly title: string;
  readonly credential: 'API key' | 'API token';
  /** Where somebody else answers: the URL is wrong. */
  readonly notTheirs: ApiFailure & { readonly kind: 'hold' };
  /** Whether a success may be answered with nothing, or with something else than an object. */
  readonly anySuccess?: true;
  /** Milliseconds that an error asks to wait; Retry-After as a rule. */
  readonly waitMs?: (headers: HttpHeaders, status: number, now: number) => number | undefined;
  /** A temporary error that its status alone does not show to be one, or that has more to say. */
  readonly temporary?: (answer: ErrorAnswer) => ApiFailure | undefined;
  /** What the credential lacks by a 403. */
  readonly missingPermission?: (answer: ErrorAnswer) => string;
  /** Reads every other error. */
  readonly readRefusal: (answer: ErrorAnswer) => ApiProblem;
  /**
   * Whether the vendor may have stored an error under the idempotency key, to give it again to whoever
   * comes with that key: then the next attempt needs another one.
   */
  readonly storesError?: (answer: ApiProblem, status: number) => boolean;
}

/** Reads what came back by the rules that are the same for every vendor, and by the vendor's own. */
export function readAnswer(
  vendor: Vendor,
  { method, path }: Pick<HttpRequest, 'method' | 'path'>,
  outcome: HttpOutcome,
  now: number,
): ApiAnswer {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'hold' : 'retry', reason: outcome.reason };
  }
  const { status, headers, complete } = outcome;
  // What broke off says nothing that can be relied on, and may be long.
  const value = complete ? parse(outcome.body) : undefined;
  const body = isRecord(value) ? value : undefined;
  if (isSuccess(status)) {
    const isEmpty = complete && outcome.body.trim() === '';
    const isAnything = vendor.anySuccess === true && (value !== undefined || isEmpty);
    if (body !== undefined || isAnything) return { kind: 'ok', body: body ?? {}, value, headers };
    if (complete) return vendor.notTheirs;
    return { kind: 'retry', reason: `HTTP ${method} ${redactPath(path)}: the answer broke off` };
  }
  const title = `${vendor.title} error ${status}`;
  const waitMs = vendor.waitMs
    ? vendor.waitMs(headers, status, now)
    : retryAfterMs(headers['retry-after'], now);
  return readError(vendor, { method, path, status, headers, body, title, waitMs });
}

function readError(vendor: Vendor, answer: ErrorAnswer): ApiProblem {
  const { status, title } = answer;
  const temporary = vendor.temporary?.(answer);
  if (temporary !== undefined) return temporary;
  if (status === 429) return retryLater(answer, 'rate limit');
  if (status === 408 || status >= 500) return retryLater(answer);
  if (status === 401) return { kind: 'hold', reason: `${title}: check the ${vendor.credential}` };
  if (status === 403) {
    const lacking = vendor.missingPermission?.(answer) ?? 'a permission';
    return { kind: 'hold', reason: `${title}: the ${vendor.credential} lacks ${lacking}` };
  }
  if (status < 400) return { kind: 'hold', reason: `${title}: redirects are not followed` };
  return vendor.readRefusal(answer);
}

/** A failure that passes, after as long as the answer asks for. */
export function retryLater({ title, waitMs }: ErrorAnswer, why?: string): ApiFailure {
  const reason = why === undefined ? title : `${title}: ${why}`;
  return { kind: 'retry', reason, afterMs: waitMs };
}

/** A reason out of the vendor's own words, no longer than a log line or a status can take. */
export function reasonOf({ title }: ErrorAnswer, ...said: readonly string[]): string {
  return [title, ...said.filter((word) => word !== '')].join(': ').slice(0, MAX_REASON);
}

/** What an unexpected answer means for a step: what is refused will be refused again. */
export function failedStep(answer: ApiProblem): FailedStep {
  const { kind, reason } = answer;
  if (kind === 'refused') return { kind: 'rejected', reason };
  if (kind === 'hold') return { kind, reason };
  return { kind, reason, afterMs: answer.afterMs };
}

/** Several times a page of a hundred subscriptions with twenty prices each; read within 0.15 s. */
const MAX_VALUES = 150_000;

/** Undefined for what is no JSON, and for what would take the process too long to read. */
function parse(text: string): unknown {
  if (jsonShape(text).values > MAX_VALUES) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
