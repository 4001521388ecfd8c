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
import { holdDraft, STRIPE_WAITS, stripeHeaders, stripeMessage } from './webhooks.ts';

const SECOND_MS = 1_000;

export interface FakeStripeOptions extends RateLimits {
  readonly apiKey: string;
  /** A restricted key: the permission that it lacks for a request, if so. */
  readonly lacks?: (method: string, path: string) => string | undefined;
  /** How far the search index lags behind; endless when infinite. */
  readonly searchLagMs?: number;
  /** Search as in countries where it is not offered. */
  readonly withoutSearch?: boolean;
  /** Answers take so long, which is when calls can meet. */
  readonly latencyMs?: number;
  readonly rules?: Partial<StripeRules>;
  readonly webhookSecret?: string;
  /** Whose schedule of retries it has. */
  readonly webhookMode?: keyof typeof STRIPE_WAITS;
  readonly keepsRequests?: boolean;
  readonly now?: () => number;
  /** When a request came, if it says so itself. */
  readonly timeOf?: (request: FakeRequest) => number;
  readonly port?: number;
}

export interface FakeStripe extends FakeServer {
  readonly state: StripeState;
  /** Sets the clock and does what is due by then; from now on the clock stands still. */
  readonly turnTo: (at: number) => void;
  /** What became of all usage by now. */
  readonly account: () => Account;
  readonly webhooks: WebhookSender;
}

/**
 * A stateful stand-in for Stripe (docs/how-to/destinations/stripe.md#how-stripe-answers): identifiers unique for
 * 24 hours only, results stored by idempotency key with 5xx among them, one call at a time for a customer
 * and meter, search that lags behind, and invoices by the rules of both billing modes (`cycles.ts`).
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
      // What never got past the front door left nothing behind.
      if (status >= 500 && status !== 503) {
        storeCarriedOut(state, request, { status, body: STORED_FAILURE }, at(request));
      }
    },
  });
  const webhooks = createWebhookSender({
    clock,
    turnTo: sliceTo,
    told: () => state.notices.map(stripeMessage),
    waits: STRIPE_WAITS[options.webhookMode ?? 'sandbox'],
    sign: (body, _message, time) => stripeHeaders(options.webhookSecret ?? '', body, time),
    tried: (message, isTaken) => holdDraft(state, message, isTaken),
  });
  return { ...server, state, turnTo: sliceTo, account: () => accountOf(state), webhooks };
}

const STORED_FAILURE = { error: { type: 'api_error', message: 'An unknown error occurred' } };
