import type { FakeRequest } from '../fake-server.ts';

const SECOND_MS = 1_000;

export interface RateLimits {
  /** Requests of all kinds in any one second. */
  readonly requestsPerSecond?: number;
  /**
   * Stripe's own limits (https://docs.stripe.com/rate-limits): meter events have a limit of their
   * own in live mode only.
   */
  readonly rateLimits?: 'live' | 'test';
}

interface Bound {
  readonly what: string;
  readonly most: number;
}

/** Counts requests, and returns for each whether it exceeds a limit. */
export function createRateLimiter(limits: RateLimits): (request: FakeRequest) => boolean {
  const counts = new Map<string, number>();
  return (request) => {
    const second = Math.floor(request.at / SECOND_MS);
    return boundsOf(request, limits)
      .map(({ what, most }) => {
        const key = `${second} ${what}`;
        const count = (counts.get(key) ?? 0) + 1;
        counts.set(key, count);
        return count > most;
      })
      .includes(true);
  };
}

function boundsOf(
  { method, path }: FakeRequest,
  { requestsPerSecond, rateLimits }: RateLimits,
): readonly Bound[] {
  const requested =
    requestsPerSecond === undefined ? [] : [{ what: 'asked', most: requestsPerSecond }];
  if (rateLimits === undefined) return requested;
  if (rateLimits === 'live' && path === '/v1/billing/meter_events') {
    return [...requested, { what: path, most: 1_000 }];
  }
  const endpoint = `${method} ${path.replaceAll(/\/[a-z]+_[^/]+/g, '/:id')}`;
  return [
    ...requested,
    { what: 'account', most: rateLimits === 'live' ? 100 : 25 },
    { what: endpoint, most: path.endsWith('/search') ? 20 : 25 },
  ];
}
