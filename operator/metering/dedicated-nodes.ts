import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { DedicatedLabels, NodeState } from '../observation/node-state.ts';
import type { Span } from '../observation/timeline.ts';
import type { MeterInput } from './meter.ts';
import { ownNodeOwners } from './own-nodes.ts';

/** To whom a node was dedicated during `[from, to)`. */
export interface OwnedStretch {
  readonly from: number;
  readonly to: number;
  readonly owner: TenantCluster | undefined;
  /** Tenant clusters with an equal claim to it; billed to none of them as dedicated. */
  readonly rivals: readonly TenantCluster[];
}

export type Owners = (state: NodeState, from: number, to: number) => readonly OwnedStretch[];

/** Prefixes of host namespaces that a node label may leave out (design 1). */
const NAMESPACE_PREFIXES = ['tenant-', 'vcluster-', 'vc-'];

/**
 * How strongly a node's labels name a tenant cluster: VCLUSTER_NODE_LABEL beats the cluster's name,
 * which beats the exact namespace, which beats the namespace without its prefix (design 7, Whole
 * nodes); 0 when they do not. External tenant clusters have no nodes on this cluster.
 */
function dedicationRank(
  labels: DedicatedLabels,
  cluster: Pick<TenantCluster, 'name' | 'namespace' | 'source'>,
  dedicatedNodeLabel: string | undefined,
): number {
  const { name, namespace, source } = cluster;
  if (source === 'external') return 0;
  const configured = dedicatedNodeLabel?.split('=')[1]?.replace('%s', () => name);
  if (labels.configured !== undefined && labels.configured === configured) return 4;
  const named = (value: string): boolean => labels.namespaceOrName.includes(value);
  if (named(name)) return 3;
  if (named(namespace)) return 2;
  const prefix = NAMESPACE_PREFIXES.find((one) => namespace.startsWith(one));
  return prefix !== undefined && named(namespace.slice(prefix.length)) ? 1 : 0;
}

interface Claim {
  readonly span: Span<TenantCluster>;
  readonly rank: number;
}

/** Tells to whom a node in a state was billed whole, stretch by stretch, without holes. */
export function createOwners(
  input: Pick<MeterInput, 'observation' | 'settings' | 'ownNodes'>,
): Owners {
  return input.ownNodes === true ? ownNodeOwners(input) : dedicatedOwners(input);
}

function dedicatedOwners({
  observation,
  settings,
}: Pick<MeterInput, 'observation' | 'settings'>): Owners {
  const claims = new Map<NodeState, readonly Claim[]>();

  const claimsTo = (state: NodeState): readonly Claim[] => {
    const known = claims.get(state);
    if (known !== undefined) return known;
    const { dedicatedTo } = state;
    const named = dedicatedTo.configured !== undefined || dedicatedTo.namespaceOrName.length > 0;
    const spans = named ? observation.tenantClusters.during(-Infinity, Infinity) : [];
    const found = spans.flatMap((span) => {
      const rank = dedicationRank(dedicatedTo, span.state, settings.dedicatedNodeLabel);
      return rank === 0 ? [] : [{ span, rank }];
    });
    claims.set(state, found);
    return found;
  };

  return (state, from, to) => {
    const all = claimsTo(state).filter(({ span }) => span.from < to && span.to > from);
    if (all.length === 0) return [{ from, to, owner: undefined, rivals: [] }];
    const edges = all.flatMap(({ span }) => [span.from, span.to]);
    const inside = edges.filter((edge) => edge > from && edge < to);
    const cuts = [from, ...new Set(inside.toSorted((a, b) => a - b))];
    return cuts.map((cut, index) => {
      const present = all.filter(({ span }) => span.from <= cut && span.to > cut);
      return { from: cut, to: cuts[index + 1] ?? to, ...strongest(present) };
    });
  };
}

/** One node, one tenant: only equal rank is a conflict. */
function strongest(claims: readonly Claim[]): Pick<OwnedStretch, 'owner' | 'rivals'> {
  const best = Math.max(0, ...claims.map(({ rank }) => rank));
  const first = claims.filter(({ rank }) => rank === best).map(({ span }) => span.state);
  return first.length === 1 ? { owner: first[0], rivals: [] } : { owner: undefined, rivals: first };
}
