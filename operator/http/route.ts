import type { RequestHandler } from 'express';
import type { Registry } from 'prom-client';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Access } from './access.ts';
import type { HttpLimits } from './limits.ts';
import type { Portal } from './portal/portal.ts';
import type { TenantScope } from './scope.ts';
import type { UsageTotals } from '../billing/usage/usage-totals.ts';
import type { Views } from './views.ts';

/** One operation of the API, as the OpenAPI document lists it. */
export interface Route {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** As in OpenAPI: `/api/v1/tenants/{tenant}`. */
  readonly path: string;
  readonly access: Access;
  /** How the route confines a portal token to its tenant. Without it, it refuses them. */
  readonly tenantScope?: TenantScope;
  /**
   * How a hub answers a request that names no stream:
   *
   * - `all`: with the answer of all streams together.
   * - `refused`: with 404, because only the operator of a cluster has the route.
   * - absent: with 400, because the request must name a stream.
   */
  readonly hub?: 'all' | 'refused';
  /** For the index at `/`. */
  readonly summary: string;
  readonly handlers: readonly RequestHandler[];
}

/** The dependencies of the routes. */
export interface RouteContext {
  /** The operator's version, as `/api/v1/status` shows it. */
  readonly version: string;
  readonly views: Views;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly limits: HttpLimits;
  readonly portal: Portal;
  /** Stored sums of usage; undefined where every sum is computed from the ledger. */
  readonly totals: () => UsageTotals | undefined;
  /** True once the server is stopping. */
  readonly stopping: () => boolean;
}
