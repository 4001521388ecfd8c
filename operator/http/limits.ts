import type { Request, RequestHandler, Response } from 'express';
import { MemoryStore, rateLimit } from 'express-rate-limit';
import type { Clock } from '../telemetry/clock.ts';
import { clientKey } from './access.ts';
import { type Problem, tryLater } from './problem.ts';
import { tenantOf } from './scope.ts';

/** Limits of one client, and of all clients together, see docs/explanation/security.md#d-11. */
export interface HttpLimits {
  /** Requests a second of a client, by token or else address; undefined switches it off. */
  readonly requestsPerSecond: number | undefined;
  /**
   * Events and access checks a second of one client. A gateway sends a request for each of them
   * (docs/how-to/ai-gateways.md#limits). Undefined switches the limit off.
   */
  readonly eventsPerSecond: number | undefined;
  /** From the first byte of a request to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** To the end of its body: 10 MiB at 350 KiB a second. */
  readonly requestTimeoutMs: number;
  readonly connectionsCheckingIntervalMs: number;
  /**
   * Between requests; longer than load balancers and LiteLLM (120 s) keep an idle connection. An
   * event that LiteLLM sends during a close is lost (docs/how-to/ai-gateways.md#lost-events).
   */
  readonly keepAliveTimeoutMs: number;
  /** Without a byte moving in either direction. */
  readonly idleTimeoutMs: number;
  readonly maxConnections: number;
  /** Connections of one address, so that one client cannot take all of them. */
  readonly maxConnectionsPerAddress: number;
  readonly maxHeaderBytes: number;
  /** How long requests in progress may take when the server stops, as in the earlier release. */
  readonly stopGraceMs: number;
}

export const DEFAULT_LIMITS: HttpLimits = {
  requestsPerSecond: 2000,
  eventsPerSecond: 20_000,
  headersTimeoutMs: 5000,
  requestTimeoutMs: 30_000,
  connectionsCheckingIntervalMs: 1000,
  keepAliveTimeoutMs: 125_000,
  idleTimeoutMs: 60_000,
  maxConnections: 1024,
  maxConnectionsPerAddress: 256,
  maxHeaderBytes: 8 * 1024,
  stopGraceMs: 10_000,
};

/** The limits of the probe port: the kubelet sends small requests, each on a new connection. */
export function probeLimits(main: HttpLimits): HttpLimits {
  return {
    ...main,
    headersTimeoutMs: Math.min(main.headersTimeoutMs, 2000),
    requestTimeoutMs: Math.min(main.requestTimeoutMs, 2000),
    keepAliveTimeoutMs: 1000,
    idleTimeoutMs: Math.min(main.idleTimeoutMs, 5000),
    maxConnectionsPerAddress: 16,
    maxConnections: 1024,
  };
}

/** Allows so many requests a second of one client; answers 429 with Retry-After beyond. */
export function createRateLimit(requestsPerSecond: number): {
  readonly middleware: RequestHandler;
  close(): void;
} {
  const store = new MemoryStore();
  const middleware = rateLimit({
    windowMs: 1000,
    limit: requestsPerSecond,
    store,
    standardHeaders: false,
    legacyHeaders: false,
    validate: false,
    keyGenerator: clientKey,
    handler: (_request, _response, next) => next(tooMany('requests', requestsPerSecond)),
  });
  return { middleware, close: () => store.shutdown() };
}

/** Allows so many requests or events a second of one client; throws 429 beyond. */
export class IngestRate {
  readonly #what: 'requests' | 'events';
  readonly #most: number;
  readonly #counts: ClientCounts;

  constructor(what: 'requests' | 'events', most: number | undefined, clock: Clock) {
    this.#what = what;
    this.#most = most ?? Number.POSITIVE_INFINITY;
    this.#counts = new ClientCounts(clock, this.#most, 1000);
  }

  take(request: Request, response: Response, count = 1): void {
    if (this.#counts.allow(clientKey(request, response), count)) return;
    throw tooMany(this.#what, this.#most);
  }
}

function tooMany(what: 'requests' | 'events', most: number): Problem {
  const limit = `more than ${most} ${what} a second`;
  return tryLater(429, 1, `too many ${what}: ${limit}: slow down or send larger batches`);
}

/** Limits the work in progress; refuses more with 503. */
export class ConcurrencyLimit {
  readonly #capacity: number;
  readonly #reason: string;
  #used = 0;

  /** `reason` is part of the error that a refused client reads. */
  constructor(capacity: number, reason: string) {
    this.#capacity = capacity;
    this.#reason = reason;
  }

  /**
   * Takes a share of 1 until the answer is sent; throws 503 when there is no room. Calls `freed`
   * when the share is free again.
   */
  hold(response: Response, freed?: () => void): void {
    this.grow(response, freed)(1);
  }

  /**
   * As {@link hold}, for a share that grows: each call of the returned function takes more, or
   * throws 503.
   */
  grow(response: Response, freed?: () => void): (more: number) => void {
    let reserved = 0;
    response.once('close', () => {
      this.#used -= reserved;
      if (reserved > 0) freed?.();
    });
    return (more) => {
      if (response.closed) return;
      if (this.#used > 0 && this.#used + more > this.#capacity) {
        throw busy(this.#reason);
      }
      this.#used += more;
      reserved += more;
    };
  }
}

/** How many requests may read the ledger at a time: operators', all tenants', one tenant's. */
const OPERATOR_SCANS = 4;
const TENANT_SCANS = 12;
const SCANS_OF_ONE_TENANT = 6;
const BUSY_SCANS = 'too many exports and sums at once';

/**
 * Limits the requests that read the ledger. Tenants have a separate limit: they cannot keep
 * operators out, and one tenant cannot keep the others out.
 */
export class Scans {
  readonly #operators = new ConcurrencyLimit(OPERATOR_SCANS, BUSY_SCANS);
  readonly #tenants = new ConcurrencyLimit(TENANT_SCANS, BUSY_SCANS);
  readonly #ofTenant = new Map<string, number>();

  /** As {@link ConcurrencyLimit.hold}. */
  hold(response: Response): void {
    const tenant = tenantOf(response.req);
    if (tenant === undefined) return this.#operators.hold(response);
    const used = this.#ofTenant.get(tenant) ?? 0;
    if (used >= SCANS_OF_ONE_TENANT) throw busy(BUSY_SCANS);
    this.#tenants.hold(response, () => {
      const left = (this.#ofTenant.get(tenant) ?? 1) - 1;
      if (left === 0) this.#ofTenant.delete(tenant);
      else this.#ofTenant.set(tenant, left);
    });
    if (!response.closed) this.#ofTenant.set(tenant, used + 1);
  }
}

function busy(reason: string): Error {
  return tryLater(503, 1, `busy: ${reason}: try again in a second`);
}

/** Failed attempts count for this long. */
export const FAILURES_WINDOW_MS = 60_000;
/** Failed signatures a minute. A billing system's retries with a wrong secret stay below it. */
export const MOST_FAILED_SIGNATURES = 30;
/** Unknown tokens a minute. Clients behind one proxy whose token was rotated stay below it. */
export const MOST_FAILED_TOKENS = 120;
const MOST_CLIENTS = 10_000;

/**
 * Counts by client: failed attempts, or events. Failed attempts never refuse a client with valid
 * credentials: behind a proxy all clients have one address. An attacker must not lock out the
 * billing system by failing in its name.
 */
export class ClientCounts {
  readonly #clock: Clock;
  readonly #most: number;
  readonly #windowMs: number;
  readonly #clients = new Map<string, { readonly since: number; count: number }>();

  /** Allows at most `most` within each `windowMs`. */
  constructor(clock: Clock, most: number, windowMs: number) {
    this.#clock = clock;
    this.#most = most;
    this.#windowMs = windowMs;
  }

  /** Adds to the count of the current window; false when the client has had too many in it. */
  allow(client: string, count = 1): boolean {
    const now = this.#clock.monotonic();
    const last = this.#clients.get(client);
    if (last !== undefined && now - last.since < this.#windowMs) {
      last.count += count;
      return last.count <= this.#most;
    }
    if (this.#clients.size >= MOST_CLIENTS) this.#clients.clear();
    this.#clients.set(client, { since: now, count });
    return count <= this.#most;
  }
}
