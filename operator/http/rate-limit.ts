import type { RequestHandler } from 'express';
import { MemoryStore, rateLimit } from 'express-rate-limit';
import { clientKey } from './access.ts';
import { tryLater } from './problem.ts';

const WINDOW_MS = 1000;

export interface RateLimit {
  readonly middleware: RequestHandler;
  close(): void;
}

/** At most so many requests a second of one client: 429 with Retry-After beyond. */
export function createRateLimit(requestsPerSecond: number): RateLimit {
  const store = new MemoryStore();
  const middleware = rateLimit({
    windowMs: WINDOW_MS,
    limit: requestsPerSecond,
    store,
    standardHeaders: false,
    legacyHeaders: false,
    validate: false,
    keyGenerator: clientKey,
    handler: (_request, _response, next) => {
      const what = `more than ${requestsPerSecond} requests a second`;
      next(tryLater(429, 1, `too many requests: ${what}: slow down or send larger batches`));
    },
  });
  return { middleware, close: () => store.shutdown() };
}
