import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../../config/settings.ts';
import type { Customers } from '../../fleet/customers.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Tracer } from '../../telemetry/tracer.ts';
import type { HubDestinations } from './hub-destinations.ts';

/** What the process of a hub has while it leads, and what all of its streams share. */
export interface HubContext {
  readonly version: string;
  /** The settings as the environment has them. */
  readonly environment: Settings;
  /** With the price books of the streams laid over it. */
  readonly settings: SettingsStore;
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
  /** On record in the first database. */
  readonly customers: Customers;
  /** Resolves when the streams that there are have been opened: a tenant may be in several of them. */
  readonly allAsked: (signal: AbortSignal) => Promise<void>;
  /** A tenant as all streams together have it; undefined where none knows it. */
  readonly merged: (tenant: string) => Tenant | undefined;
}
