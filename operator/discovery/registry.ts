import { clusterApi } from './cluster-api/cluster-api.ts';
import { hypershift } from './hypershift/hypershift.ts';
import { k3k } from './k3k/k3k.ts';
import { kamaji } from './kamaji/kamaji.ts';
import { namespaces } from './namespaces/namespaces.ts';
import type { TenantSource } from './tenant-source.ts';
import { vcluster } from './vcluster/vcluster.ts';

/** Every kind of tenants, the more specific first. If two claim the same, the first gets it. */
export const SOURCES: readonly TenantSource[] = [
  vcluster,
  k3k,
  kamaji,
  hypershift,
  clusterApi,
  namespaces,
];
