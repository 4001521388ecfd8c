import type { RequestHandler } from 'express';
import type { Registry } from 'prom-client';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Access } from './access.ts';
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
  /** How a tenant's own token is held to that tenant here; such tokens are refused where it is absent. */
  readonly tenantScope?: TenantScope;
  /**
   * What a hub makes of it where no stream is named: the answer of all streams together. `refused`: only the operator of a
   * cluster does it. By default a stream has to be named.
   */
  readonly hub?: 'all' | 'refused';
  /** For the index at `/`. */
  readonly summary: string;
  readonly handlers: readonly RequestHandler[];
}

/** What the routes are built from. */
export interface RouteContext {
  readonly version: string;
  readonly views: Views;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly portal: Portal;
  /** Undefined where sums are made by reading the ledger. */
  readonly totals: () => UsageTotals | undefined;
  /** True from the moment the server has been told to stop. */
  readonly stopping: () => boolean;
}
