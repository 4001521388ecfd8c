import type { DestinationSettings } from '../../settings/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Catalog } from '../../model/catalog.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { DeliveryMetrics } from '../delivery-metrics.ts';
import type { TenantLookup } from '../lanes/tenant-directory.ts';

/** The dependencies of a feeder. */
export interface FeederOptions {
  readonly settings: DestinationSettings;
  readonly destination: Destination;
  readonly ledger: Ledger;
  /** As in `DeliveryOptions`. */
  readonly mayAppend?: boolean;
  readonly tenants: TenantLookup;
  readonly catalog: () => Catalog;
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: DeliveryMetrics;
}
