import type { EnforcementSettings } from '../../../settings/settings.ts';
import { MANAGED_BY_LABEL } from '../../../discovery/vcluster/selection.ts';
import { namespacesOf, type TenantCluster } from '../../../discovery/tenant-cluster.ts';
import type { ControlPlaneWorkload } from '../../../discovery/vcluster/views.ts';
import type { HostNamespace } from '../../../discovery/views.ts';
import type { EffectiveState } from '../states/tenant-record.ts';
import {
  type Marks,
  marksOf,
  NO_MARKS,
  stateKeys,
  SUSPENDED_ACCOUNTS,
  SUSPENDED_CLUSTER_PREFIX,
  SUSPENDED_LABEL,
  textOfMarks,
} from './keys.ts';

/** A tenant's billing state, and since when (milliseconds since the epoch). */
export type StateSince = EffectiveState & { readonly since: number };

export interface MarksInput {
  readonly mode: EnforcementSettings['mode'];
  /** Tenants whose pods are not refused, whatever their state. */
  readonly neverSuspend: ReadonlySet<string>;
  readonly labelPrefix: string;
  readonly clusters: readonly TenantCluster[];
  readonly stateOf: (tenant: string) => StateSince;
  readonly namespaces: Iterable<HostNamespace>;
  readonly statefulSets: Iterable<ControlPlaneWorkload>;
  readonly deployments: Iterable<ControlPlaneWorkload>;
}

/** An object whose marks differ from the desired ones. */
export interface PlannedMarks {
  readonly kind: 'Namespace' | 'StatefulSet' | 'Deployment';
  readonly uid: string;
  /** `''` for a Namespace. */
  readonly namespace: string;
  readonly name: string;
  readonly observed: Marks;
  readonly desired: Marks;
}

/**
 * The form of a label's name. A tenant cluster with a longer name has no synced pods: its syncer
 * labels them with its name.
 */
const LABEL_NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/**
 * Returns the objects whose marks must change (docs/how-to/enforcement.md#modes). Marks without a
 * reason are removed, so a plan also undoes what an earlier state, mode or process left.
 */
export function planMarks(input: MarksInput): {
  readonly objects: readonly PlannedMarks[];
  /** Tenant clusters whose new pods are refused. */
  readonly suspended: readonly TenantCluster[];
} {
  const { mode, labelPrefix } = input;
  const hosted = input.clusters.filter(({ source }) => source === 'workload');
  const suspended = hosted.filter((cluster) => isSuspended(cluster, input));
  const workloads = [
    ...[...input.statefulSets].map((object) => ({ kind: 'StatefulSet' as const, object })),
    ...[...input.deployments].map((object) => ({ kind: 'Deployment' as const, object })),
  ];
  const byPlace = new Map(
    hosted.map((cluster) => [`${cluster.namespace}/${cluster.name}`, cluster]),
  );
  const byNamespace = Map.groupBy(
    hosted.flatMap((cluster) =>
      namespacesOf(cluster).map((namespace) => ({ namespace, cluster }) as const),
    ),
    ({ namespace }) => namespace,
  );
  /** Older syncers label a mapped namespace with this key and nothing else. */
  const byMapping = new Map(
    hosted.map((cluster) => [`${cluster.namespace}-x-${cluster.name}`, cluster]),
  );
  const accounts = soleAccounts(
    hosted,
    suspended,
    workloads.map(({ object }) => object),
  );

  const planned: PlannedMarks[] = [];
  const plan = (
    kind: PlannedMarks['kind'],
    object: HostNamespace | ControlPlaneWorkload,
    desired: Marks,
  ): void => {
    const observed = marksOf(object.metadata, labelPrefix);
    if (textOfMarks(observed) === textOfMarks(desired)) return;
    const { uid, namespace, name } = object;
    planned.push({ kind, uid, namespace, name, observed, desired });
  };
  for (const object of input.namespaces) {
    const own = (byNamespace.get(object.name) ?? []).map(({ cluster }) => cluster);
    const mapped = byMapping.get(object.metadata.labels[MANAGED_BY_LABEL] ?? '');
    const clustersInside = mapped === undefined || own.includes(mapped) ? own : [...own, mapped];
    plan(
      'Namespace',
      object,
      namespaceMarks(own, clustersInside, new Set(suspended), accounts, input),
    );
  }
  for (const { kind, object } of workloads) {
    const cluster = byPlace.get(`${object.namespace}/${object.release}`);
    const isMarked = mode !== 'observe' && cluster !== undefined;
    plan(
      kind,
      object,
      isMarked ? workloadMarks(input.stateOf(cluster.tenant), labelPrefix) : NO_MARKS,
    );
  }
  return { objects: planned, suspended };
}

function isSuspended(cluster: TenantCluster, { mode, neverSuspend, stateOf }: MarksInput): boolean {
  if (mode !== 'enforce' || cluster.enforcementExempt) return false;
  if (neverSuspend.has(cluster.tenant)) return false;
  return stateOf(cluster.tenant).state === 'suspended';
}

/** A namespace shows a state only if it belongs to one tenant cluster. */
function namespaceMarks(
  own: readonly TenantCluster[],
  inside: readonly TenantCluster[],
  suspended: ReadonlySet<TenantCluster>,
  accounts: ReadonlyMap<TenantCluster, readonly string[]>,
  { mode, labelPrefix, stateOf }: MarksInput,
): Marks {
  const [sole, ...others] = own;
  const state = sole === undefined || others.length > 0 ? 'active' : stateOf(sole.tenant).state;
  const shown: Record<string, string> =
    mode === 'observe' || state === 'active' ? {} : { [stateKeys(labelPrefix).state]: state };
  if (!inside.some((cluster) => suspended.has(cluster))) return { labels: shown, annotations: {} };
  const perCluster = inside
    .filter(({ name }) => LABEL_NAME.test(name))
    .map((cluster) => [
      `${SUSPENDED_CLUSTER_PREFIX}${cluster.name}`,
      String(suspended.has(cluster)),
    ]);
  const users = inside.flatMap((cluster) => accounts.get(cluster) ?? []);
  return {
    labels: { ...shown, [SUSPENDED_LABEL]: 'true', ...Object.fromEntries(perCluster) },
    annotations: { [SUSPENDED_ACCOUNTS]: [...new Set(users)].toSorted().join(',') },
  };
}

function workloadMarks(current: StateSince, labelPrefix: string): Marks {
  if (current.state === 'active') return NO_MARKS;
  const { state, reason, since } = stateKeys(labelPrefix);
  return {
    labels: { [state]: current.state },
    annotations: {
      [since]: new Date(current.since).toISOString(),
      ...(current.reason !== '' && { [reason]: current.reason }),
    },
  };
}

/**
 * The users that only suspended tenant clusters use. A user that a running tenant cluster shares is
 * left out.
 */
function soleAccounts(
  hosted: readonly TenantCluster[],
  suspended: readonly TenantCluster[],
  workloads: readonly ControlPlaneWorkload[],
): ReadonlyMap<TenantCluster, readonly string[]> {
  if (suspended.length === 0) return new Map();
  const byPlace = Map.groupBy(workloads, ({ namespace, release }) => `${namespace}/${release}`);
  const usersOf = ({ namespace, name }: TenantCluster): readonly string[] =>
    (byPlace.get(`${namespace}/${name}`) ?? []).map(
      ({ serviceAccount }) => `system:serviceaccount:${namespace}:${serviceAccount}`,
    );
  const marked = new Set(suspended);
  const running = new Set(hosted.filter((cluster) => !marked.has(cluster)).flatMap(usersOf));
  return new Map(
    suspended.map((cluster) => [cluster, usersOf(cluster).filter((user) => !running.has(user))]),
  );
}
