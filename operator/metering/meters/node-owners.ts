import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { DedicatedLabels, NodeState } from '../timelines/node-state.ts';
import { type Span, splitAtEdges } from '../timelines/timeline.ts';
import type { MeterInput } from './meter.ts';

/** The tenant cluster that a node was dedicated to during `[from, to)`. */
export interface OwnedStretch {
  readonly from: number;
  readonly to: number;
  readonly owner: TenantCluster | undefined;
  /** Tenant clusters with an equal claim to it; none of them is billed for it as dedicated. */
  readonly rivals: readonly TenantCluster[];
}

export type Owners = (state: NodeState, from: number, to: number) => readonly OwnedStretch[];

/** Prefixes of host namespaces that a node label may leave out. */
const NAMESPACE_PREFIXES = ['tenant-', 'vcluster-', 'vc-'];

/**
 * Returns how strongly a node's labels name a tenant cluster, 0 when they do not
 * (docs/explanation/nodes.md#whole-nodes). VCLUSTER_NODE_LABEL beats the cluster's name, which
 * beats the exact namespace, which beats the namespace without its prefix. External tenant clusters
 * have no nodes on this cluster.
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
  // Only tenant clusters of vCluster use the other labels.
  if (source !== 'workload') return 0;
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

/** Returns who is billed the complete node for a node's state, in stretches without holes. */
export function createOwners(
  input: Pick<MeterInput, 'observation' | 'settings' | 'privateNodes'>,
): Owners {
  return input.privateNodes === true ? privateNodeOwners(input) : dedicatedOwners(input);
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
    const spans = all.map(({ span }) => span);
    return splitAtEdges(from, to, spans).map(([start, end]) => {
      const present = all.filter(({ span }) => span.from <= start && span.to > start);
      return { from: start, to: end, ...strongest(present) };
    });
  };
}

/** Returns the strongest claim; only equal ranks are a conflict. */
function strongest(claims: readonly Claim[]): Pick<OwnedStretch, 'owner' | 'rivals'> {
  const best = Math.max(0, ...claims.map(({ rank }) => rank));
  const first = claims.filter(({ rank }) => rank === best).map(({ span }) => span.state);
  return first.length === 1 ? { owner: first[0], rivals: [] } : { owner: undefined, rivals: first };
}

/**
 * Owners of private nodes (docs/explanation/nodes.md#private-nodes). The tenant cluster is billed
 * for complete nodes while PRIVATE_NODE_BILLING is `node`; under `usage` it is billed for what runs
 * on them. A node of the host cluster has no owner here, whatever the tenant's API reports.
 */
function privateNodeOwners({ observation }: Pick<MeterInput, 'observation'>): Owners {
  return (state, from, to) => {
    if (state.foreign === true) return [unowned(from, to)];
    const stretches: OwnedStretch[] = [];
    let reached = from;
    for (const tenancy of observation.tenantClusters.tenancies('', from, to)) {
      const start = Math.max(from, tenancy.from);
      const end = Math.min(to, tenancy.to);
      if (start > reached) stretches.push(unowned(reached, start));
      const owner = tenancy.clusters.find(({ metering }) => metering.privateNodeBilling === 'node');
      stretches.push({ from: start, to: end, owner, rivals: [] });
      reached = end;
    }
    if (reached < to) stretches.push(unowned(reached, to));
    return stretches;
  };
}

function unowned(from: number, to: number): OwnedStretch {
  return { from, to, owner: undefined, rivals: [] };
}

/** The state and owner of a node during `[from, to)`; no state for an unknown node. */
export interface NodeStretch extends OwnedStretch {
  readonly state: NodeState | undefined;
}

/**
 * Looks up a node by name, in stretches without holes. `asBilled` selects what closed windows used,
 * before late facts.
 */
export type NodeLookup = (
  name: string,
  from: number,
  to: number,
  asBilled?: boolean,
) => readonly NodeStretch[];

/** Spans of all nodes of a name, in order of time. */
type SpansByName = ReadonlyMap<string, readonly Span<NodeState>[]>;

/**
 * Creates the look-up of nodes by name. A pod may be known a moment before its node, and outlive it
 * by a moment. So the first state of a node extends back, and each later one extends to the next.
 */
export function nodesByName(
  input: Pick<MeterInput, 'observation' | 'settings' | 'privateNodes'>,
): NodeLookup {
  const { nodes } = input.observation;
  const owners = createOwners(input);
  const known = spansByName(nodes, false);
  const billed = [...nodes.late()].length === 0 ? known : spansByName(nodes, true);
  return (name, from, to, asBilled = false) => {
    const spans = (asBilled ? billed : known).get(name) ?? [];
    const [first] = spans;
    // Fast path: this runs once for each pod, and most pods are on a node of one state.
    if (first !== undefined && spans.length === 1) {
      return owners(first.state, from, to).map((owned) => ({ ...owned, state: first.state }));
    }
    return reaching(spans, from, to).flatMap(({ state, ...bounds }): readonly NodeStretch[] => {
      if (state === undefined) return [{ ...bounds, state, owner: undefined, rivals: [] }];
      return owners(state, bounds.from, bounds.to).map((owned) => ({ ...owned, state }));
    });
  };
}

/** Reads current or billed spans once; later changes are not included. */
function spansByName(
  nodes: Pick<MeterInput['observation']['nodes'], 'inNamespace'>,
  asBilled: boolean,
): SpansByName {
  const byName = new Map<string, readonly Span<NodeState>[]>();
  for (const timeline of nodes.inNamespace('')) {
    const spans = asBilled ? (timeline.billed ?? timeline.spans) : timeline.spans;
    const before = byName.get(timeline.name);
    // Nearly every name has one node only, whose spans are in order.
    const all = before === undefined ? spans : [...before, ...spans].toSorted(byStart);
    byName.set(timeline.name, all);
  }
  return byName;
}

function byStart(a: Span<NodeState>, b: Span<NodeState>): number {
  return a.from - b.from;
}

function reaching(
  spans: readonly Span<NodeState>[],
  from: number,
  to: number,
): readonly {
  readonly from: number;
  readonly to: number;
  readonly state: NodeState | undefined;
}[] {
  if (spans.length === 0) return [{ from, to, state: undefined }];
  return spans.flatMap((span, index) => {
    const start = index === 0 ? from : Math.max(from, span.from);
    const end = Math.min(to, spans[index + 1]?.from ?? Infinity);
    return end <= start ? [] : [{ from: start, to: end, state: span.state }];
  });
}
