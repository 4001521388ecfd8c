import type { FakeResponse } from '../fake-server.ts';

export function ok(body: unknown): FakeResponse {
  return { status: 200, body };
}

/** The error form of v1 (https://docs.stripe.com/api/errors). */
export function failure(
  status: number,
  type: string,
  message: string,
  more: { readonly code?: string; readonly param?: string; readonly shouldRetry?: boolean } = {},
): FakeResponse {
  const { code, param, shouldRetry } = more;
  const headers: Record<string, string> =
    shouldRetry === undefined ? {} : { 'stripe-should-retry': String(shouldRetry) };
  return {
    status,
    headers,
    body: { error: { type, message, ...(code && { code }), ...(param && { param }) } },
  };
}

export function invalid(message: string, code?: string, param?: string): FakeResponse {
  return failure(400, 'invalid_request_error', message, {
    code,
    param,
  });
}

export function missing(what: string, id: string): FakeResponse {
  const more = { code: 'resource_missing', param: 'id' };
  return failure(404, 'invalid_request_error', `No such ${what}: '${id}'`, more);
}

export const UNKNOWN_PATH: FakeResponse = failure(
  404,
  'invalid_request_error',
  'Unrecognized request URL. Please see https://stripe.com/docs or we can help at https://support.stripe.com/.',
);

export const UNAUTHORIZED: FakeResponse = failure(
  401,
  'invalid_request_error',
  'Invalid API Key provided: sk_test_****',
);

/** Returns Stripe's refusal of a restricted key. */
export function forbidden(permission: string): FakeResponse {
  const stated =
    "The provided key 'rk_test_*********abcd' does not have the required permissions for this endpoint on account 'acct_1'.";
  const fix = `Having the '${permission}' permission would allow this request to continue.`;
  return failure(403, 'invalid_request_error', `${stated} ${fix}`);
}

export const RATE_LIMITED: FakeResponse = failure(
  429,
  'invalid_request_error',
  'Request rate limit exceeded.',
  { code: 'rate_limit' },
);
