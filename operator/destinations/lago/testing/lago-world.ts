import {
  type FakeLago,
  type FakeLagoOptions,
  startFakeLago,
} from '../../../../e2e/fakes/lago/lago.ts';
import { Secret } from '../../../model/secret.ts';
import type { LagoSettings } from '../settings.ts';
import { BUILT_IN_METRICS, type MetricDefinition } from '../../../model/catalog.ts';
import type { Tenant } from '../../../model/tenant.ts';
import { createTestContext, type TestContext, testTenant } from '../../testing/context.ts';
import { systemClock } from '../../../telemetry/system-clock.ts';
import { Lago } from '../lago.ts';

/** Wall clock of the stand-in: shortly after the window of test events. */
export const LAGO_NOW = Date.UTC(2026, 10, 21, 9, 5, 0);

/** The metrics that go to Lago (docs/reference/events.md#metrics). */
export const LAGO_METRICS = BUILT_IN_METRICS.filter(
  ({ code }) => code !== 'tenant_gpu_downtime_hours',
);

export interface LagoWorld {
  readonly lago: FakeLago;
  /** Sets the clock of both sides, and runs every due job of Lago. */
  readonly advanceTo: (at: number) => void;
  readonly destination: Lago;
  readonly context: TestContext;
  /** Starts another operator process on the same Lago. */
  readonly restart: (settings?: Partial<LagoSettings>) => Lago;
  readonly bootstrap: (metrics?: readonly MetricDefinition[]) => Promise<void>;
  /** Bootstraps and provisions. */
  readonly ready: (...tenants: Tenant[]) => Promise<void>;
  /** Returns the requests of one method to paths with a prefix, oldest first. */
  readonly requests: (method: string, path: string) => readonly { readonly body: unknown }[];
  readonly close: () => Promise<void>;
}

export const { signal: NEVER } = new AbortController();

export async function createLagoWorld(
  options: Partial<FakeLagoOptions> = {},
  settings: Partial<LagoSettings> = {},
): Promise<LagoWorld> {
  let turned = LAGO_NOW;
  const lago = await startFakeLago({ apiKey: 'key', now: () => turned, ...options });
  const context = createTestContext({
    ...systemClock,
    now: () => turned,
    monotonic: () => systemClock.monotonic() + turned - LAGO_NOW,
  });
  const made: Lago[] = [];
  const create = (change: Partial<LagoSettings> = {}): Lago => {
    const full: LagoSettings = {
      url: lago.url,
      apiKey: new Secret('key'),
      planCode: 'tenant-standard',
      currency: 'USD',
      ...settings,
      ...change,
    };
    const destination = new Lago('lago', full, context);
    made.push(destination);
    return destination;
  };
  const destination = create();
  const bootstrap: LagoWorld['bootstrap'] = async (metrics = LAGO_METRICS) => {
    const outcome = await destination.bootstrap(metrics, NEVER);
    if (outcome.kind !== 'done') throw new Error(outcome.reason);
  };
  return {
    lago,
    advanceTo: (at) => {
      turned = at;
      lago.turnTo(at);
    },
    destination,
    context,
    restart: create,
    bootstrap,
    ready: async (...tenants) => {
      await bootstrap();
      for (const tenant of tenants.length > 0 ? tenants : [testTenant()]) {
        const outcome = await destination.customers.provision(tenant, NEVER);
        if (outcome.kind !== 'done') throw new Error(outcome.reason);
      }
    },
    requests: (method, path) =>
      lago.requests
        .filter((request) => request.method === method && request.path.startsWith(path))
        .map(({ body }) => ({ body: body === '' ? undefined : (JSON.parse(body) as unknown) })),
    close: async () => {
      await Promise.all(made.map((one) => one.close()));
      await lago.close();
    },
  };
}
