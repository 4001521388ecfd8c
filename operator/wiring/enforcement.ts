import type { Registry } from 'prom-client';
import type { SettingsStore } from '../config/settings.ts';
import type { Controllers } from '../controllers/controllers.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { DiscoverySources } from '../discovery/sources.ts';
import { createEnforcement, type Enforcement } from '../enforcement/enforcement.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createEventRecorder } from '../kubernetes/events.ts';
import type { WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface WiredEnforcementOptions {
  readonly connection: Connection;
  readonly ledger: Ledger;
  readonly settings: SettingsStore;
  readonly discovery: Discovery;
  readonly sources: DiscoverySources;
  readonly delivery: () => Pick<Delivery, 'tenantsOf'>;
  readonly controllers: () => Pick<Controllers, 'ready'>;
  readonly queueMetrics: WorkQueueMetrics;
  readonly registry: Registry;
  /** Which process reports in Kubernetes Events: the pod's name. */
  readonly instance: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Enforcement with its ears: destinations that know their customers, and overrides that may exempt. */
export function wireEnforcement(options: WiredEnforcementOptions): Promise<Enforcement> {
  const { delivery, controllers } = options;
  return createEnforcement({
    ...options,
    ask: (provider, customer, signal) => delivery().tenantsOf(provider, customer, signal),
    overridesKnown: (signal) => controllers().ready(signal),
    events: createEventRecorder(options),
  });
}
