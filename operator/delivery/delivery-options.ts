import type { Registry } from 'prom-client';
import type { Destination } from '../destinations/destination.ts';
import type { CreateDestination } from '../destinations/registry.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Catalog } from '../model/catalog.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { DeliveryMetrics } from './delivery-metrics.ts';
import type { ExistingDestination } from './destination-status.ts';
import type { TenantLookup } from './lanes/tenant-directory.ts';

export interface DeliveryOptions {
  readonly ledger: Ledger;
  readonly createDestination: CreateDestination;
  readonly tenants: TenantLookup;
  readonly catalog: () => Catalog;
  /**
   * Destinations of custom resources, including those with unusable settings. The status shows an
   * unusable one with the reason. Its cursor stays as it is.
   */
  readonly existing?: () => readonly ExistingDestination[];
  /**
   * True if other processes feed destinations from the same ledger: cursors of unknown destinations
   * stay as they are. By default they are retired.
   */
  readonly othersFeed?: boolean;
  /** Whether the ledger accepts events (default true). If not, records note late billing. */
  readonly mayAppend?: boolean;
  /** The current MAX_BACKFILL, milliseconds. */
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}

/** The dependencies of a feeder. */
export interface FeederOptions
  extends Omit<DeliveryOptions, 'createDestination' | 'existing' | 'othersFeed' | 'registry'> {
  readonly settings: DestinationSettings;
  readonly destination: Destination;
  readonly metrics: DeliveryMetrics;
}
