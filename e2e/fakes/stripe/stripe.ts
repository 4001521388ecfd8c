import type { Account } from '../account.ts';
import {
  CONTROL_PREFIX,
  type FakeRequest,
  type FakeResponse,
  type FakeServer,
  startFakeServer,
} from '../fake-server.ts';
import { createTestClock, turnedBy } from '../test-clock.ts';
import { createWebhookSender, type WebhookSender } from '../webhook-sender.ts';
import { accountOf } from './account.ts';
import { forbidden, RATE_LIMITED, UNAUTHORIZED } from './answers.ts';
import { runUntil } from './cycles.ts';
import { sessionProblem, STREAM } from './event-stream.ts';
import { replayed, storeCarriedOut } from './idempotency.ts';
import { createRateLimiter, type RateLimits } from './rate-limits.ts';
import { laneOf, route } from './routes.ts';
import { createStripeState, type StripeRules, type StripeState } from './state.ts';
import { delayDraft, STRIPE_WAITS, stripeHeaders, stripeMessage } from './webhooks.ts';

const SECOND_MS = 1_000;

export interface FakeStripeOptions extends RateLimits {
  readonly apiKey: string;
  /** Returns the permission that a restricted key lacks for a request, if any. */
  readonly lacks?: (method: string, path: string) => string | undefined;
  /** How far the search index lags behind; infinite for never. */
  readonly searchLagMs?: number;
  /** Refuses search, as in countries where it is not offered. */
  readonly withoutSearch?: boolean;
  /** Delays every answer, so that calls can overlap. */
  readonly latencyMs?: number;
  readonly rules?: Partial<StripeRules>;
  readonly webhookSecret?: string;
  /** The mode with its schedule of webhook retries. */
  readonly webhookMode?: keyof typeof STRIPE_WAITS;
  readonly keepsRequests?: boolean;
  readonly now?: () => number;
  /** Returns when a request arrived, for requests that carry their own time. */
  readonly timeOf?: (request: FakeRequest) => number;
  readonly port?: number;
}

export interface FakeStripe extends FakeServer {
  readonly state: StripeState;
  /** Sets the clock and does Stripe's own work until then. The clock stands still afterwards. */
  readonly turnTo: (at: number) => void;
  /** Returns the state of all usage. */
  readonly account: () => Account;
  readonly webhooks: WebhookSender;
}

/**
 * Starts a stateful stand-in for Stripe (docs/how-to/destinations/stripe.md#how-stripe-answers):
 * - Identifiers are unique for only 24 hours.
 * - It stores results by idempotency key, 5xx included.
 * - It takes one call at a time for a customer and meter.
 * - Search lags behind.
 * - It makes invoices by the rules of both billing modes (`cycles.ts`).
 */
export async function startFakeStripe(options: FakeStripeOptions): Promise<FakeStripe> {
  const state = createStripeState(options.rules);
  const clock = createTestClock(options.now);
  const run = (time: number): void => runUntil(state, Math.floor(time / SECOND_MS));
  const sliceTo = (time: number): void => {
    clock.turnTo(time);
    run(time);
  };
  const busy = new Set<string>();
  const isTooMany = createRateLimiter(options);
  const at = (request: FakeRequest): number => options.timeOf?.(request) ?? request.at;

  const handle = (request: FakeRequest): FakeResponse => {
    const now = at(request);
    run(now);
    const turned = turnedBy(request, sliceTo);
    if (turned !== undefined) return turned;
    if (isTooMany(request)) return RATE_LIMITED;
    const stored = replayed(state, request, now);
    if (stored !== undefined) return stored;
    const response = route(state, request, now, { ...options, busy });
    storeCarriedOut(state, request, response, now);
    return response;
  };
  const server = await startFakeServer({
    ...options,
    now: clock.now,
    authorize: (request) => {
      const { method, path, headers } = request;
      if (path.startsWith(CONTROL_PREFIX)) return undefined;
      if (path === STREAM) return sessionProblem(state, request, at(request));
      if (headers['authorization'] !== `Bearer ${options.apiKey}`) return UNAUTHORIZED;
      const permission = options.lacks?.(method, path);
      return permission === undefined ? undefined : forbidden(permission);
    },
    handle,
    answered: (request) => {
      const key = laneOf(request);
      if (key !== undefined) busy.delete(key);
    },
    misbehaved: (request, { status = 503 }) => {
      // A request that was refused at the entrance has no stored result.
      if (status >= 500 && status !== 503) {
        storeCarriedOut(state, request, { status, body: STORED_FAILURE }, at(request));
      }
    },
  });
  const webhooks = createWebhookSender({
    clock,
    turnTo: sliceTo,
    notices: () => state.notices.map(stripeMessage),
    waits: STRIPE_WAITS[options.webhookMode ?? 'sandbox'],
    sign: (body, _message, time) => stripeHeaders(options.webhookSecret ?? '', body, time),
    tried: (message, isTaken) => delayDraft(state, message, isTaken),
  });
  return { ...server, state, turnTo: sliceTo, account: () => accountOf(state), webhooks };
}

const STORED_FAILURE = { error: { type: 'api_error', message: 'An unknown error occurred' } };
