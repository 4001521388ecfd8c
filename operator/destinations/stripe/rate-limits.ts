import type { Clock } from '../../telemetry/clock.ts';
import { createPace, type Pace } from './pace.ts';

/** Spec 8: what BILLING_A_MAX_RPS = 0 picks. */
const TEST_MODE_RPS = 20;
const LIVE_RPS = 200;
/** Stripe allows 25 requests a second for each other operation (facts 2.2). */
const OTHER_RPS = 20;

export interface StripeRateLimits {
  /** Meter events a second. */
  readonly perSecond: number;
  readonly meterEvents: Pace;
  readonly others: Pace;
}

/**
 * In live mode meter events have a budget of their own at Stripe, so that they and the rest are paced
 * apart; in test mode everything counts together (facts 2.2).
 */
export function createRateLimits(
  apiKey: string,
  maxRequestsPerSecond: number,
  clock: Clock,
): StripeRateLimits {
  const testMode = isTestKey(apiKey);
  const automatic = testMode ? TEST_MODE_RPS : LIVE_RPS;
  const perSecond = maxRequestsPerSecond === 0 ? automatic : maxRequestsPerSecond;
  const meterEvents = createPace(perSecond, clock);
  const others = testMode ? meterEvents : createPace(Math.min(OTHER_RPS, perSecond), clock);
  return { perSecond, meterEvents, others };
}

/** Whether a secret or restricted key is one of test mode. */
function isTestKey(apiKey: string): boolean {
  return /^[a-z]+_test_/.test(apiKey);
}
