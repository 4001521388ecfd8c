import { isRecord } from '../../model/is-record.ts';
import { jsonShape } from '../../model/json-shape.ts';
import { parseJson } from '../../model/parse-json.ts';
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

/** A billing system's answer, with the distinctions that hold for every request. */
export type ApiAnswer = ApiSuccess | ApiProblem;
export type ApiProblem = ApiRefusal | ApiFailure;

export interface ApiSuccess {
  readonly kind: 'ok';
  /** The JSON object of the answer; empty when the answer is no object. */
  readonly body: JsonObject;
  /** The JSON value of the answer; undefined when the answer is empty. */
  readonly value: unknown;
  readonly headers: HttpHeaders;
}

/** A refusal of the request's content. Its meaning depends on the request. */
export interface ApiRefusal {
  readonly kind: 'refused';
  readonly status: number;
  /** The vendor's own code, such as `plan_not_found`; may be empty. */
  readonly code: string;
  /** The vendor's own description of the error. */
  readonly details: JsonObject;
  readonly reason: string;
}

/** A failure that says nothing about the request's content. */
export type ApiFailure =
  | {
      readonly kind: 'retry';
      readonly reason: string;
      readonly afterMs?: number;
      /**
       * `conflict`: only this request is concerned; others may go on. `session`: a short-lived
       * credential expired, and the vendor took nothing.
       */
      readonly cause?: 'conflict' | 'session';
    }
  | { readonly kind: 'blocked'; readonly reason: string };

export type ApiList = { readonly kind: 'list'; readonly items: readonly JsonObject[] } | ApiProblem;

export type HttpHeaders = Readonly<Record<string, string>>;

/** An answer with a status outside 2xx. */
export interface ErrorAnswer {
  readonly method: HttpRequest['method'];
  readonly path: string;
  readonly status: number;
  readonly headers: HttpHeaders;
  /** Undefined when the answer is no JSON object. */
  readonly body: JsonObject | undefined;
  /** The beginning of every reason, such as `<name> API error 429`. */
  readonly title: string;
  /** How long the answer asks to wait, milliseconds. */
  readonly waitMs: number | undefined;
}

/** The differences between a vendor's answers and those of others. */
export interface Vendor {
  /** The name of the API in reasons. */
  readonly title: string;
  readonly credential: 'API key' | 'API token';
  /** The failure when another server answers: the URL is wrong. */
  readonly notTheirs: ApiFailure & { readonly kind: 'blocked' };
  /** True if a success may have an empty answer or one that is no object. */
  readonly anySuccess?: true;
  /** Returns how long an error asks to wait, milliseconds. Default: Retry-After. */
  readonly waitMs?: (headers: HttpHeaders, status: number, now: number) => number | undefined;
  /** Returns a temporary error that the status alone does not show, or one with more details. */
  readonly temporary?: (answer: ErrorAnswer) => ApiFailure | undefined;
  /** Returns the permission that the credential lacks after a 403. */
  readonly missingPermission?: (answer: ErrorAnswer) => string;
  /** Reads every other error. */
  readonly readRefusal: (answer: ErrorAnswer) => ApiProblem;
  /**
   * Returns whether the vendor may replay this error for the same idempotency key. The next attempt
   * then needs another key.
   */
  readonly storesError?: (answer: ApiProblem, status: number) => boolean;
}

/** Reads an answer by the rules for every vendor and by the vendor's own. */
export function readAnswer(
  vendor: Vendor,
  { method, path }: Pick<HttpRequest, 'method' | 'path'>,
  outcome: HttpOutcome,
  now: number,
): ApiAnswer {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'blocked' : 'retry', reason: outcome.reason };
  }
  const { status, headers, complete } = outcome;
  // A truncated body proves nothing and may be long.
  const value = complete ? parse(outcome.body) : undefined;
  const body = isRecord(value) ? value : undefined;
  if (isSuccess(status)) {
    const isEmpty = complete && outcome.body.trim() === '';
    const isAnything = vendor.anySuccess === true && (value !== undefined || isEmpty);
    if (body !== undefined || isAnything) return { kind: 'ok', body: body ?? {}, value, headers };
    if (complete) return vendor.notTheirs;
    return {
      kind: 'retry',
      reason: `HTTP ${method} ${redactPath(path)}: the answer is incomplete`,
    };
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
  if (status === 401)
    return { kind: 'blocked', reason: `${title}: check the ${vendor.credential}` };
  if (status === 403) {
    const lacking = vendor.missingPermission?.(answer) ?? 'a permission';
    return { kind: 'blocked', reason: `${title}: the ${vendor.credential} lacks ${lacking}` };
  }
  if (status < 400) return { kind: 'blocked', reason: `${title}: redirects are not followed` };
  return vendor.readRefusal(answer);
}

/** Returns a temporary failure that waits as long as the answer asks. */
export function retryLater({ title, waitMs }: ErrorAnswer, why?: string): ApiFailure {
  const reason = why === undefined ? title : `${title}: ${why}`;
  return { kind: 'retry', reason, afterMs: waitMs };
}

/** Builds a reason from the vendor's own words, short enough for a log line or a status. */
export function reasonOf({ title }: ErrorAnswer, ...details: readonly string[]): string {
  return [title, ...details.filter((word) => word !== '')].join(': ').slice(0, MAX_REASON);
}

/**
 * Translates an unexpected answer into a failed step. A refusal is final: a repeat is refused too.
 */
export function failedStep(answer: ApiProblem): FailedStep {
  const { kind, reason } = answer;
  if (kind === 'refused') return { kind: 'rejected', reason };
  if (kind === 'blocked') return { kind, reason };
  return { kind, reason, afterMs: answer.afterMs };
}

/** A page of a hundred subscriptions with twenty prices each, several times; parsed in 0.15 s. */
const MAX_VALUES = 150_000;

/** Returns undefined for text that is no JSON, and for text that takes too long to parse. */
function parse(text: string): unknown {
  return jsonShape(text).values > MAX_VALUES ? undefined : parseJson(text);
}
