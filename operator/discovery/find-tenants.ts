import { SOURCES } from './registry.ts';
import type { FoundTenants, HostObjects } from './tenant-source.ts';

/** What all kinds of tenants find on the host cluster. */
export function findTenants(host: HostObjects): FoundTenants {
  const found = SOURCES.map((source) => source.find(host));
  return {
    candidates: found.flatMap(({ candidates }) => candidates),
    problems: found.flatMap(({ problems }) => problems),
    refusedNamespaces: new Set(found.flatMap(({ refusedNamespaces }) => [...refusedNamespaces])),
  };
}
