import type { Clock } from '../telemetry/clock.ts';

const WINDOW_MS = 60_000;
/** More than a wrong secret makes of a billing system's retries. */
const MOST_FAILURES = 30;
const MOST_CLIENTS = 10_000;

/**
 * Counts failed attempts by client. It never keeps anybody out who can prove himself: behind a proxy all
 * clients have one address, and nobody may lock out the billing system by failing in its name.
 */
export interface FailedAttempts {
  /** One more; false when the client has failed too often within the last minute. */
  allow(client: string): boolean;
}

export function createFailedAttempts(clock: Clock): FailedAttempts {
  const clients = new Map<string, { readonly since: number; failures: number }>();
  return {
    allow: (client) => {
      const now = clock.monotonic();
      const last = clients.get(client);
      if (last !== undefined && now - last.since < WINDOW_MS) {
        last.failures += 1;
        return last.failures <= MOST_FAILURES;
      }
      if (clients.size >= MOST_CLIENTS) clients.clear();
      clients.set(client, { since: now, failures: 1 });
      return true;
    },
  };
}
