import type { Registry } from 'prom-client';
import type { CreateDestination } from '../destinations/registry.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Catalog } from '../model/catalog.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ExistingDestination } from './destination-status.ts';
import type { TenantSource } from './lanes/tenant-directory.ts';

export interface DeliveryOptions {
  readonly ledger: Ledger;
  readonly createDestination: CreateDestination;
  readonly tenants: TenantSource;
  readonly catalog: () => Catalog;
  /**
   * Destinations of custom resources, also of those whose settings cannot be used: they are shown with the
   * reason, and their cursors stay as they are.
   */
  readonly existing?: () => readonly ExistingDestination[];
  /** Cursors of destinations that nobody knows here may be others', and stay as they are; by default they are retired. */
  readonly othersFeed?: boolean;
  /** Whether the ledger takes events, by default true: what late usage was billed as is noted in records alone where it does not. */
  readonly mayAppend?: boolean;
  /** MAX_BACKFILL as it is set now. */
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}
