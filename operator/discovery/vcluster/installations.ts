import { compareBytewise } from '../../model/bytewise.ts';
import { byAge } from '../views.ts';
import type { ControlPlaneWorkload, PlatformInstance } from './views.ts';

/** A tenant cluster as shown by its workloads and its platform instance. */
export interface Installation {
  readonly namespace: string;
  readonly name: string;
  /** Oldest first; empty if only the platform shows it. */
  readonly workloads: readonly ControlPlaneWorkload[];
  readonly instance?: PlatformInstance;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

interface InstallationsInput {
  readonly workloads: readonly ControlPlaneWorkload[];
  readonly instances: readonly PlatformInstance[];
  readonly namespaceExists: (namespace: string) => boolean;
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
  readonly platformCluster?: string;
  /** Names of the tenant clusters in TENANT_CLUSTERS_FILE. */
  readonly externalNames?: readonly string[];
}

/**
 * Combines workloads and platform instances by namespace and name
 * (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 * 1. A StatefulSet and a Deployment of one release are one tenant cluster.
 * 2. A workload without an instance is a tenant cluster.
 * 3. An instance whose host namespace is here is a tenant cluster.
 */
export function findInstallations(input: InstallationsInput): {
  /** Oldest first, so that ids are assigned in that order. */
  readonly installations: readonly Installation[];
  readonly problems: readonly string[];
} {
  const watched = new Set(input.watchNamespaces);
  const isWatched = (namespace: string) => watched.size === 0 || watched.has(namespace);
  const workloads = Map.groupBy(input.workloads, (workload) =>
    placeOf(workload.namespace, workload.release),
  );
  const problems: string[] = [];
  const instances = chooseInstances(input, problems);
  problems.push(...unnamedProblems(input));
  const installations: Installation[] = [];
  for (const place of new Set([...workloads.keys(), ...instances.keys()])) {
    const [namespace = '', name = ''] = place.split('/');
    const own = (workloads.get(place) ?? []).toSorted(byAge);
    const instance = instances.get(place);
    if (!isWatched(namespace)) continue;
    if (own.length === 0 && !input.namespaceExists(namespace)) continue;
    const createdAt = own[0]?.createdAt ?? instance?.createdAt ?? 0;
    const found = { namespace, name, workloads: own, createdAt };
    installations.push(instance === undefined ? found : { ...found, instance });
  }
  return { installations: installations.toSorted(byAge), problems };
}

/** Picks one instance per place: none that is moving away, then one that stays, then the older. */
function chooseInstances(
  { instances, platformCluster }: InstallationsInput,
  problems: string[],
): ReadonlyMap<string, PlatformInstance> {
  const local = [...instances].filter(
    ({ ignored, cluster }) =>
      !ignored && (platformCluster === undefined || cluster === platformCluster),
  );
  const clusters = new Set(local.flatMap(({ cluster }) => cluster ?? []));
  if (platformCluster === undefined && clusters.size > 1) {
    const named = [...clusters].toSorted(compareBytewise).join(', ');
    const fix = 'set PLATFORM_CLUSTER or spec.discovery.platformCluster of the MeteringPolicy';
    problems.push(`platform instances of several clusters (${named}); ${fix}`);
  }
  const chosen = new Map<string, PlatformInstance>();
  for (const instance of local.toSorted(byStayThenAge)) {
    if (instance.hostNamespace === undefined) continue;
    const place = placeOf(instance.hostNamespace, instance.hostName);
    const first = chosen.get(place);
    if (first === undefined) {
      chosen.set(place, instance);
      continue;
    }
    problems.push(
      `platform instances ${nameOf(first)} and ${nameOf(instance)} both point to ${place}; the first one is used`,
    );
  }
  return chosen;
}

/**
 * Reports standalone and external instances: nobody meters them until TENANT_CLUSTERS_FILE lists
 * them (docs/how-to/private-nodes.md#external-tenant-clusters). One entry stands for one instance.
 * If several have one name, the later ones are listed as `<namespace>.<name>`.
 */
function unnamedProblems({
  instances,
  platformCluster,
  externalNames,
}: InstallationsInput): string[] {
  const elsewhere = [...instances].filter(
    ({ ignored, hostNamespace, cluster }) =>
      !ignored &&
      hostNamespace === undefined &&
      (platformCluster === undefined || cluster === undefined || cluster === platformCluster),
  );
  const listed = new Set(externalNames);
  const named = new Set<string>();
  return elsewhere.toSorted(byStayThenAge).flatMap((instance) => {
    const { namespace, name } = instance;
    if (listed.has(`${namespace}.${name}`)) return [];
    const entry = named.has(name) ? `${namespace}.${name}` : name;
    named.add(name);
    if (listed.has(entry)) return [];
    return `platform instance without a namespace on this cluster: ${nameOf(instance)}: it is not metered; give it an entry "${entry}" in TENANT_CLUSTERS_FILE`;
  });
}

function placeOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

function nameOf({ namespace, name }: PlatformInstance): string {
  return `${namespace}/${name}`;
}

function byStayThenAge(a: PlatformInstance, b: PlatformInstance): number {
  return Number(a.deleting) - Number(b.deleting) || byAge(a, b);
}
