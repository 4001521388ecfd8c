import type { SettingsStore } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Observation, ObservationOptions } from '../observation/observation.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createTenantApiAccess } from '../tenant-api/access.ts';
import { createTenantApis, type TenantApis } from '../tenant-api/tenant-apis.ts';
import { restoreTenantApis, type RestoredTenantApi } from '../windows/tenant-journal.ts';
import type { Part } from './parts.ts';
import type { Watches } from './watches.ts';

export interface TenantApisWiring {
  /** To the host's API server, for the kubeconfig Secrets. */
  readonly connection: Connection;
  readonly settings: SettingsStore;
  readonly discovery: Discovery;
  readonly observation: Observation;
  readonly observing: ObservationOptions;
  readonly watches: Watches;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/** Tenant clusters with nodes of their own: the way to their APIs, their watches, and what the journal knows of them. */
export interface WiredTenantApis {
  readonly apis: TenantApis;
  readonly restored: readonly RestoredTenantApi[];
  /** To be stopped after the windows, whose journal says where the watches are. */
  readonly parts: readonly Part[];
}

export async function wireTenantApis(options: TenantApisWiring): Promise<WiredTenantApis> {
  const { connection, settings, discovery, observation, watches, ledger, logger } = options;
  const common = { clock: options.clock, random: options.random, logger };
  const access = createTenantApiAccess({
    ...common,
    connection,
    discovery,
    settings,
  });
  const apis = createTenantApis({
    ...common,
    access,
    enabled: () => settings.current().tenantApi.enabled,
    discovery,
    tenantClusters: observation.tenantClusters,
    host: {
      nodes: watches.collector.nodes,
      volumes: watches.collector.volumes,
      loadBalancers: watches.collector.loadBalancers,
    },
    observing: options.observing,
  });
  const restored = await restoreTenantApis(ledger, (id) => apis.observe(id), logger);
  apis.restore(restored);
  return {
    apis,
    restored,
    parts: [
      { name: 'access to tenant APIs', run: (signal) => access.run(signal) },
      { name: 'watches of tenant APIs', run: (signal) => apis.run(signal) },
    ],
  };
}
