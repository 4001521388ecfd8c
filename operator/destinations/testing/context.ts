import { Registry } from 'prom-client';
import type { Tenant } from '../../model/tenant.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import type { DestinationContext } from '../destination.ts';

export interface TestContext extends DestinationContext {
  readonly logger: ReturnType<typeof createMemoryLogger>;
}

/** Returns a destination's dependencies, on the real network. */
export function createTestContext(clock: Clock = systemClock): TestContext {
  const registry = new Registry();
  const outbound = createOutbound({ registry, clock, userAgent: 'meterfeed/test' });
  return { outbound, clock, logger: createMemoryLogger() };
}

export function testTenant(change: Partial<Tenant> = {}): Tenant {
  return {
    id: 'tenant-vcluster-a-a',
    displayName: 'Team A',
    region: 'eu-central-1',
    clusters: ['tenant-vcluster-a-a'],
    createdAt: Date.UTC(2026, 10, 20, 12, 0, 0),
    ...change,
  };
}
