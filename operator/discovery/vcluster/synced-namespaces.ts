import { compareBytewise } from '../../model/bytewise.ts';
import { quote } from '../../model/quote.ts';
import { type ClusterPlace, placeKey } from '../cluster-ids.ts';
import { MANAGED_BY_LABEL } from './selection.ts';
import type { SyncedNamespace } from '../tenant-cluster.ts';
import type { HostNamespace } from '../views.ts';

/**
 * A syncer sets these labels on each Namespace of the host cluster that it maps one to one: the
 * name of its tenant cluster, and the namespace of that control plane
 * (https://www.vcluster.com/docs/vcluster/configure/vcluster-yaml/sync/to-host).
 */
const NAME_LABEL = 'vcluster.loft.sh/vcluster-name';
const NAMESPACE_LABEL = 'vcluster.loft.sh/vcluster-namespace';

/** Prefix of Kubernetes' own namespaces. */
const SYSTEM_PREFIX = 'kube-';

interface SyncedNamespacesInput {
  readonly namespaces: readonly HostNamespace[];
  /** The tenant clusters of this pass, excluded ones included. */
  readonly clusters: readonly ClusterPlace[];
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
  readonly ownNamespace?: string;
}

/**
 * The host namespaces that syncers map, each for at most one tenant cluster
 * (docs/explanation/discovery.md#namespaces-that-a-syncer-maps).
 */
export function findSyncedNamespaces(input: SyncedNamespacesInput): {
  /** By {@link placeKey} of their tenant cluster, sorted by name. */
  readonly byPlace: ReadonlyMap<string, readonly SyncedNamespace[]>;
  /** Namespaces that claim a tenant cluster and belong to nobody, with the reason, sorted. */
  readonly problems: readonly string[];
  /**
   * Names of those, without the namespaces of Kubernetes and the operator. The owner of their
   * objects is unknown.
   */
  readonly refused: ReadonlySet<string>;
} {
  const watched = new Set(input.watchNamespaces);
  const isWatched = (namespace: string) => watched.size === 0 || watched.has(namespace);
  const claims = createClaims(input);
  const byPlace = new Map<string, SyncedNamespace[]>();
  const problems: string[] = [];
  const refused = new Set<string>();
  const labelled = [...input.namespaces]
    .filter(({ metadata: { labels } }) => NAME_LABEL in labels || NAMESPACE_LABEL in labels)
    .toSorted((a, b) => compareBytewise(a.name, b.name));
  for (const namespace of labelled) {
    const { name, createdAt, metadata } = namespace;
    const of = {
      namespace: metadata.labels[NAMESPACE_LABEL] ?? '',
      name: metadata.labels[NAME_LABEL] ?? '',
    };
    // A control plane's own namespace needs no mapping, and an unwatched one belongs to another
    // operator.
    if (of.namespace === name || (of.namespace !== '' && !isWatched(of.namespace))) continue;
    const refusal = claims.refusalOf(namespace, of);
    if (refusal !== undefined) {
      problems.push(`Namespace ${name}: ${refusal}`);
      if (!isSystem(name, input)) refused.add(name);
      continue;
    }
    if (!isWatched(name)) {
      const what = `belongs to tenant cluster ${placeKey(of)}, but is not one of WATCH_NAMESPACES`;
      problems.push(`Namespace ${name}: ${what}: nothing in it is billed; add ${quote(name)}`);
    }
    const known = byPlace.get(placeKey(of)) ?? [];
    byPlace.set(placeKey(of), known);
    known.push({ name, createdAt });
  }
  return { byPlace, problems, refused };
}

function isSystem(name: string, { ownNamespace }: SyncedNamespacesInput): boolean {
  return name.startsWith(SYSTEM_PREFIX) || name === ownNamespace;
}

/** Checks the labels of Namespaces against the known tenant clusters. */
function createClaims(input: SyncedNamespacesInput) {
  const { clusters } = input;
  const places = new Set(clusters.map(placeKey));
  const controlPlanes = new Map(clusters.map((place) => [place.namespace, place]));
  const byMarker = new Map(clusters.map((place) => [markerOf(place), place]));

  return {
    /** Why a Namespace is not of the tenant cluster that its labels name; undefined if it is. */
    refusalOf({ name, metadata: { labels } }: HostNamespace, of: ClusterPlace): string | undefined {
      const label = of.name === '' ? NAME_LABEL : NAMESPACE_LABEL;
      if (of.name === '' || of.namespace === '') {
        return `label ${label}: missing; a syncer sets it and ${label === NAME_LABEL ? NAMESPACE_LABEL : NAME_LABEL} together`;
      }
      const stated = `labels name tenant cluster ${quote(placeKey(of))}`;
      if (isSystem(name, input)) {
        return `${stated}: refused for a system namespace; remove the labels ${NAME_LABEL} and ${NAMESPACE_LABEL}`;
      }
      const resident = controlPlanes.get(name);
      if (resident !== undefined) {
        return `${stated}: refused, because it contains the control plane of ${placeKey(resident)}; remove the labels ${NAME_LABEL} and ${NAMESPACE_LABEL}`;
      }
      if (!places.has(placeKey(of))) {
        return `${stated}, and there is none: what is created in it is billed to nobody; delete it, or correct the labels`;
      }
      const other = byMarker.get(labels[MANAGED_BY_LABEL] ?? '');
      if (other !== undefined && placeKey(other) !== placeKey(of)) {
        return `${stated}, and ${MANAGED_BY_LABEL} names ${placeKey(other)}: refused for both; remove the labels of one`;
      }
      return undefined;
    },
  };
}

/** The name of a tenant cluster in its syncer's label on cluster-scoped objects. */
function markerOf({ namespace, name }: ClusterPlace): string {
  return `${namespace}-x-${name}`;
}
