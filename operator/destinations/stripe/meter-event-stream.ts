import { hash } from 'node:crypto';
import { Secret } from '../../model/secret.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { ApiAnswer, ApiProblem, Vendor } from '../json-api/answer.ts';
import { JsonApi } from '../json-api/json-api.ts';
import { textOf } from '../json.ts';
import type { MeterEvent } from './meter-event.ts';
import { createRateLimiter, STRIPE, type StripeClientOptions } from './stripe-client.ts';

const SESSIONS = '/v2/billing/meter_event_session';
const STREAM = '/v2/billing/meter_event_stream';
/** The stream has a host of its own (https://docs.stripe.com/api/v2/billing-meter-stream). */
const API_HOST = 'api.stripe.com';
const STREAM_HOST = 'meter-events.stripe.com';
/** Stripe's limit of events in a call. */
export const CALL_EVENTS = 100;
/** The rate of the stream with `maxRequestsPerSecond: 0`: a tenth of Stripe's limit. */
const STREAM_EVENTS_PER_SECOND = 1_000;
/** A session is replaced this long before its end. */
const RESERVE_MS = 60_000;
const CONNECTIONS = 4;

const VENDOR: Vendor = {
  ...STRIPE,
  // The answer to a call is empty.
  anySuccess: true,
  temporary: (answer) => {
    const { status, title } = answer;
    if (status !== 401) return STRIPE.temporary?.(answer);
    // Only the token can be wrong: the key has just opened the session.
    return { kind: 'retry', reason: `${title}: the session is over`, cause: 'session' };
  },
};

interface StreamSession {
  readonly token: Secret;
  /** The end of its use, by the monotonic clock. */
  readonly until: number;
}

type SessionOutcome = { readonly kind: 'session'; readonly session: StreamSession } | ApiProblem;

/** Stripe's stream of meter events: calls of up to 100 events in sessions of 15 minutes. */
export class MeterEventStream {
  /** Events that may be sent in a second. */
  readonly eventsPerSecond: number;
  readonly #clock: Clock;
  readonly #sessions: JsonApi;
  readonly #stream: JsonApi;
  #session: StreamSession | undefined;
  #opening: Promise<SessionOutcome> | undefined;

  constructor(options: StripeClientOptions) {
    const { name, url, apiKey, apiVersion, maxRequestsPerSecond, outbound, clock } = options;
    this.#clock = clock;
    this.eventsPerSecond =
      maxRequestsPerSecond === 0 ? STREAM_EVENTS_PER_SECOND : maxRequestsPerSecond;
    const common = {
      name,
      outbound,
      clock,
      credential: apiKey,
      headers: { 'stripe-version': apiVersion },
      bodyType: 'application/json',
    };
    const calls = createRateLimiter(this.eventsPerSecond / CALL_EVENTS, clock);
    this.#sessions = new JsonApi({ ...common, url, vendor: STRIPE, connections: 1 });
    this.#stream = new JsonApi({
      ...common,
      url: streamUrl(url),
      vendor: VENDOR,
      connections: CONNECTIONS,
      rateLimit: (_, signal) => calls(signal),
    });
  }

  /**
   * Makes one call. A success means that Stripe accepted the events; it validates them later. If
   * the session ends, Stripe took nothing, and the call is repeated under another session.
   */
  async send(events: readonly MeterEvent<string>[], signal: AbortSignal): Promise<ApiAnswer> {
    const body = JSON.stringify({ events });
    for (let pass = 1; ; pass += 1) {
      const opened = await this.#open(signal);
      if (opened.kind !== 'session') return opened;
      const { session } = opened;
      const request = { method: 'POST', path: STREAM, body, signal } as const;
      const answer = await this.#stream.create(
        { ...request, credential: session.token },
        callKey(events, body),
      );
      if (answer.kind !== 'retry' || answer.cause !== 'session') return answer;
      if (this.#session === session) this.#session = undefined;
      if (pass > 1) return answer;
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#sessions.close(), this.#stream.close()]);
  }

  /** Returns the open session or opens one. Simultaneous calls share it. */
  async #open(signal: AbortSignal): Promise<SessionOutcome> {
    const session = this.#session;
    if (session !== undefined && session.until > this.#clock.monotonic()) {
      return { kind: 'session', session };
    }
    this.#opening ??= this.#openAnother(signal).finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #openAnother(signal: AbortSignal): Promise<SessionOutcome> {
    const requestedAt = this.#clock.monotonic();
    const request = { method: 'POST', path: SESSIONS, body: '{}', signal } as const;
    const answer = await this.#sessions.request(request);
    if (answer.kind !== 'ok') return answer;
    const token = textOf(answer.body, 'authentication_token');
    const [created, expires] = ['created', 'expires_at'].map((field) =>
      Date.parse(textOf(answer.body, field) ?? ''),
    );
    const lasts = Number(expires) - Number(created);
    if (token === undefined || !Number.isFinite(lasts)) return STRIPE.notTheirs;
    // The duration is the difference of two times of Stripe's clock, so our clock does not matter.
    const session = { token: new Secret(token), until: requestedAt + lasts - RESERVE_MS };
    this.#session = session;
    return { kind: 'session', session };
  }
}

function streamUrl(url: string): string {
  const parsed = new URL(url);
  if (parsed.hostname === API_HOST) parsed.hostname = STREAM_HOST;
  return parsed.href;
}

/** Returns a call's idempotency key, equal for equal events. Reports of later errors name it. */
function callKey(events: readonly MeterEvent<string>[], body: string): string {
  return `${events[0]?.identifier}+${hash('sha256', body, 'hex').slice(0, 16)}`;
}

/** Returns the first event of a call by its idempotency key; undefined for a single event's key. */
export function firstOfCall(key: string): string | undefined {
  return /^(.+)\+[0-9a-f]{16}(-\d+)?$/.exec(key)?.[1];
}
