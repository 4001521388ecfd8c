import { Registry } from 'prom-client';
import type { DestinationSettings } from '../../settings/settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import { createDestinationRegistry } from '../../destinations/registry.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { buildCatalog, type CustomMetric } from '../../model/catalog.ts';
import { Delivery } from '../delivery.ts';

/** The delivery engine with its real destinations, running. */
export interface LiveDelivery {
  readonly delivery: Delivery;
  readonly registry: Registry;
  readonly lines: readonly string[];
  /** Ends it; a second call does nothing more. */
  stop(): Promise<void>;
}

export interface LiveOptions {
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly destinations: readonly DestinationSettings[];
  readonly tenants?: ReadonlyMap<string, Tenant>;
  readonly customMetrics?: readonly CustomMetric[];
}

/** Starts delivering over real HTTP. */
export async function startLiveDelivery(options: LiveOptions): Promise<LiveDelivery> {
  const { ledger, clock, tenants } = options;
  const registry = new Registry();
  const logger = createMemoryLogger();
  const catalog = buildCatalog(options.customMetrics ?? []);
  if (catalog.kind === 'invalid') throw new Error(catalog.problems.join());
  const outbound = createOutbound({ registry, clock, userAgent: 'meterfeed/test' });
  const delivery = new Delivery({
    ledger,
    clock,
    logger,
    registry,
    random: Math.random,
    catalog: () => catalog.catalog,
    maxBackfillMs: () => 6 * 3_600_000,
    tenants: { find: (id) => tenants?.get(id), subscribe: () => () => undefined },
    createDestination: createDestinationRegistry({ outbound, clock, logger }),
  });
  const ending = new AbortController();
  await delivery.apply(options.destinations);
  const running = delivery.run(ending.signal);
  return {
    delivery,
    registry,
    lines: logger.lines,
    stop: async () => {
      ending.abort();
      await running;
    },
  };
}
