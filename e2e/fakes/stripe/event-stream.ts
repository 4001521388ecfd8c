import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { ok } from './answers.ts';
import { reportErrors } from './core-events.ts';
import type { Form } from './form.ts';
import { createMeterEvent } from './meter-events.ts';
import { nextId, type StripeState } from './state.ts';

export const SESSIONS = '/v2/billing/meter_event_session';
export const STREAM = '/v2/billing/meter_event_stream';
const SESSION_MS = 15 * 60_000;
const MAX_EVENTS = 100;
const FIELDS = new Set(['event_name', 'identifier', 'payload', 'timestamp']);

/**
 * Handles the meter event stream (https://docs.stripe.com/api/v2/billing-meter-stream): a session
 * with a token for 15 minutes, and calls of up to 100 events that are validated later.
 */
export function eventStream(
  state: StripeState,
  request: FakeRequest,
  at: number,
): FakeResponse | undefined {
  const { method, path, headers, body } = request;
  if (method !== 'POST' || (path !== SESSIONS && path !== STREAM)) return undefined;
  if (headers['stripe-version'] === undefined) return refused('Please provide a Stripe-Version');
  if (body !== '' && headers['content-type']?.startsWith('application/json') !== true) {
    return refused('The body of a v2 request is JSON');
  }
  return path === SESSIONS ? openSession(state, at) : takeEvents(state, request, at);
}

/** Returns why a call may not use the stream; undefined where its session is valid. */
export function sessionProblem(
  { sessions }: StripeState,
  { headers }: FakeRequest,
  at: number,
): FakeResponse | undefined {
  const token = /^Bearer (.+)$/.exec(headers['authorization'] ?? '')?.[1] ?? '';
  if ((sessions.get(token) ?? 0) > at) return undefined;
  const code = 'billing_meter_event_session_expired';
  const type = 'temporary_session_expired';
  const message = 'The temporary session token has expired.';
  return { status: 401, body: { error: { code, type, message } } };
}

function openSession(state: StripeState, at: number): FakeResponse {
  const id = nextId(state, 'mes');
  const authentication_token = `token_${id}`;
  const expires = at + SESSION_MS;
  state.sessions.set(authentication_token, expires);
  return ok({
    id,
    object: 'v2.billing.meter_event_session',
    authentication_token,
    created: new Date(at).toISOString(),
    expires_at: new Date(expires).toISOString(),
    livemode: true,
  });
}

function takeEvents(state: StripeState, request: FakeRequest, at: number): FakeResponse {
  const events = readEvents(request.body);
  if (events === undefined) return refused('events: not a list of meter events');
  if (events.length === 0 || events.length > MAX_EVENTS) return refused('events: 1 to 100 of them');
  const key = request.headers['idempotency-key'] ?? '';
  const problems = events.flatMap((event) => {
    const { status, body } = createMeterEvent(state, event, at, () => false);
    // A repeat is no error: it is dropped.
    const code = (body as { error?: { code?: string; message?: string } }).error;
    return status < 400 || code?.code === undefined ? [] : [{ ...code, event }];
  });
  for (const [code = '', such] of Map.groupBy(problems, (problem) => problem.code)) {
    const [first] = such;
    const named = [...state.meters.values()].find(
      (one) => one.event_name === first?.event['event_name'],
    );
    const errors = { meter: named?.id ?? '', code, count: such.length, request: key };
    const type = code === 'no_meter' ? ('v1.billing.meter.no_meter_found' as const) : undefined;
    reportErrors(state, { ...errors, message: first?.message ?? '', ...(type && { type }) }, at);
  }
  return ok({});
}

/** Undefined unless it is a list of well-formed meter events. */
function readEvents(body: string): readonly Form[] | undefined {
  let events: unknown;
  try {
    ({ events } = JSON.parse(body) as { readonly events?: unknown });
  } catch {
    return undefined;
  }
  if (!Array.isArray(events)) return undefined;
  const forms = events.map(readEvent);
  return forms.every((form) => form !== undefined) ? forms : undefined;
}

function readEvent(event: unknown): Form | undefined {
  if (typeof event !== 'object' || event === null) return undefined;
  const fields = event as Readonly<Record<string, unknown>>;
  const { event_name, identifier, payload, timestamp } = fields;
  if (Object.keys(fields).some((name) => !FIELDS.has(name))) return undefined;
  if (typeof event_name !== 'string' || typeof payload !== 'object' || payload === null)
    return undefined;
  if (!Object.values(payload).every((value) => typeof value === 'string')) return undefined;
  if (identifier !== undefined && typeof identifier !== 'string') return undefined;
  const isTime = typeof timestamp === 'string' && Number.isFinite(Date.parse(timestamp));
  if (timestamp !== undefined && !isTime) return undefined;
  return {
    event_name,
    payload: payload as Form,
    ...(identifier !== undefined && { identifier }),
    ...(isTime && { timestamp: String(Math.floor(Date.parse(timestamp) / 1000)) }),
  };
}

/** The error form of v2. */
function refused(message: string): FakeResponse {
  return { status: 400, body: { error: { code: 'invalid_fields', message } } };
}
