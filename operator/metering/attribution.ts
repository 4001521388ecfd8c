import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { ObjectLabels } from '../observation/object-labels.ts';

/** Whose an object is. `unattributed`: nobody can tell, so it is reported and billed to nobody (design 5). */
export type Attribution =
  | { readonly kind: 'tenant'; readonly cluster: TenantCluster }
  | { readonly kind: 'control-plane'; readonly cluster: TenantCluster }
  | { readonly kind: 'unattributed' };

/** Tells whose an object with these labels is, among the tenant clusters of its namespace (at least one). */
export type Attribute = (labels: ObjectLabels, clusters: readonly TenantCluster[]) => Attribution;
