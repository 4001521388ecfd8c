import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../../config/settings.ts';
import type { Customers } from '../../ledger/fleet.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Tracer } from '../../telemetry/tracer.ts';
import type { HubDestinations } from './hub-destinations.ts';

/** What a hub's process has, and what all of its streams share. */
export interface HubContext {
  readonly version: string;
  /** The settings as the environment has them. */
  readonly environment: Settings;
  /** With the price books of the streams laid over it. */
  readonly settings: SettingsStore;
  /** Where other replicas reach this process, `host:port`. */
  readonly address: string;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly outbound: Outbound;
  /** Where a collector is told of work. */
  readonly tracer?: Tracer;
  /** Those of the hub's cluster. */
  readonly destinations: Pick<HubDestinations, 'ready' | 'existing'>;
  /** In the first database. */
  readonly customers: Customers;
  /** A tenant as all streams together have it; undefined where none knows it. */
  readonly merged: (tenant: string) => Tenant | undefined;
}
