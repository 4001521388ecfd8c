import { Registry } from 'prom-client';
import type { Settings } from '../../../settings/settings.ts';
import type { QueryCurrentAlerts, CustomerAnswer } from '../../../destinations/destination.ts';
import type { Discovery } from '../../../discovery/discovery.ts';
import type { Tenant } from '../../../model/tenant.ts';
import type { Source } from '../../../kubernetes/source.ts';
import { createCapturingLogger } from '../../../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import { Enforcement } from '../enforcement.ts';
import type { QueryKeys } from '../states/pinned-keys.ts';

/** Enforcement without any Kubernetes: messages, states and what is stored of them are real. */
export async function createOfflineEnforcement(options: {
  readonly ledger: Ledger;
  readonly settings: () => Settings;
  readonly tenants: () => readonly Tenant[];
  readonly clock: Clock;
  readonly known?: () => boolean;
  readonly runPass?: Discovery['runPass'];
  readonly queryCustomer?: () => Promise<CustomerAnswer>;
  readonly queryKeys?: QueryKeys;
  readonly queryCurrentAlerts?: QueryCurrentAlerts;
  readonly report?: ConstructorParameters<typeof Enforcement>[0]['report'];
  readonly registry?: Registry;
}): Promise<Enforcement> {
  const { ledger, settings, clock } = options;
  const enforcement = new Enforcement({
    ledger,
    clock,
    logger: createCapturingLogger(),
    registry: options.registry ?? new Registry(),
    settings: { current: settings, subscribe: () => () => undefined },
    discovery: {
      known: options.known ?? (() => true),
      clusters: () => [],
      tenants: options.tenants,
      runPass: options.runPass ?? (async () => ({ kind: 'found', clusters: [] })),
      subscribe: () => () => undefined,
    },
    sources: { namespaces: nothing(), statefulSets: nothing(), deployments: nothing() },
    connection: { request: async () => ({ kind: 'network', message: 'offline' }) },
    queryCustomer: options.queryCustomer ?? (async () => ({ kind: 'unknown' })),
    queryCurrentAlerts: options.queryCurrentAlerts ?? (async () => []),
    queryKeys: options.queryKeys ?? (async () => ({ kind: 'failed', reason: 'nobody to query' })),
    report: options.report ?? (async () => ({ kind: 'written' })),
    events: { record: () => undefined },
    overridesKnown: async () => undefined,
  });
  await enforcement.load();
  return enforcement;
}

function nothing<T extends { uid: string; namespace: string; name: string }>(): Source<T> {
  return {
    resource: { group: '', version: 'v1', plural: 'nothing' },
    run: async () => undefined,
    ready: async () => undefined,
    health: () => ({ state: 'synced', since: 0, freshAt: 0 }),
    size: 0,
    values: () => [].values(),
    find: () => undefined,
    resourceVersion: () => undefined,
  };
}
