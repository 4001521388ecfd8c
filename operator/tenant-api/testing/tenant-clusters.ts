import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { MachineRecords } from '../machine-records.ts';
import { settingsFrom } from '../../discovery/testing/host.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Discovery, DiscoveryListener } from '../../discovery/discovery.ts';

/** A tenant cluster as discovery finds it: `a` in namespace `tenant-a`, unless told otherwise. */
export function tenantCluster(name = 'a', more: Partial<TenantCluster> = {}): TenantCluster {
  const namespace = `tenant-${name}`;
  return {
    id: `tenant-${namespace}-${name}`,
    source: 'workload',
    namespace,
    name,
    tenant: `tenant-${namespace}-${name}`,
    displayName: name,
    excluded: false,
    enforcementExempt: false,
    createdAt: 0,
    metering: settingsFrom().metering,
    overrides: [],
    ...more,
  };
}

export interface FakeDiscovery extends Pick<Discovery, 'clusters' | 'subscribe'> {
  /** A round that found these. */
  find(...clusters: readonly TenantCluster[]): void;
}

export function fakeDiscovery(...first: readonly TenantCluster[]): FakeDiscovery {
  const listeners = new Set<DiscoveryListener>();
  let found = first;
  return {
    clusters: () => found,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    find: (...clusters) => {
      found = clusters;
      for (const listener of listeners) listener(clusters, 0);
    },
  };
}

/** No record of any machine. */
export function noMachineRecords(): MachineRecords {
  return new MachineRecords({
    pending: () => false,
    hostNode: () => undefined,
    logger: createCapturingLogger(),
  });
}
