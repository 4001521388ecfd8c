import { compareBytewise } from '../../model/bytewise.ts';
import { placeKey } from '../cluster-ids.ts';
import type { Candidate, HostObjects, TenantSource } from '../tenant-source.ts';
import type { HostNamespace } from '../views.ts';
import { findInstallations, type Installation } from './installations.ts';
import { findSyncedNamespaces } from './synced-namespaces.ts';
import type { PlatformInstance } from './views.ts';

/** Tenant clusters of vCluster: workloads, platform instances, namespaces that syncers map. */
export const vcluster: TenantSource = {
  name: 'vcluster',
  find: (host) => {
    const { watchNamespaces, platformCluster } = host.settings;
    const found = findInstallations({
      workloads: host.workloads,
      instances: host.instances,
      namespaceExists: (name) => host.namespace(name) !== undefined,
      watchNamespaces,
      platformCluster,
      externalNames: host.externalNames,
    });
    const synced = findSyncedNamespaces({
      namespaces: host.namespaces,
      clusters: found.installations,
      watchNamespaces,
      ownNamespace: host.ownNamespace,
    });
    const candidates = found.installations.map((installation) => ({
      ...candidateOf(installation, host),
      syncedNamespaces: synced.byPlace.get(placeKey(installation)),
    }));
    return {
      candidates,
      problems: [...found.problems, ...synced.problems],
      refusedNamespaces: synced.refused,
    };
  },
};

function candidateOf(
  { namespace, name, workloads, instance, createdAt }: Installation,
  host: HostObjects,
): Candidate {
  const home = host.namespace(namespace);
  return {
    source: 'workload',
    namespace,
    name,
    objects: workloads,
    workloads: [...new Set(workloads.map((workload) => workload.name))].toSorted(compareBytewise),
    createdAt,
    instance,
    project: projectOf(instance) ?? (home && hostProject(home)),
    displayName: instance?.displayName,
    nodeMode: instance?.nodeMode,
  };
}

const PROJECT_PREFIXES = ['loft-p-', 'p-'] as const;

/**
 * The platform project of an instance. Its namespace is named after the project, and users cannot
 * choose it.
 */
function projectOf(instance: PlatformInstance | undefined): string | undefined {
  if (instance === undefined) return undefined;
  const prefix = PROJECT_PREFIXES.find((known) => instance.namespace.startsWith(known));
  if (prefix !== undefined) return instance.namespace.slice(prefix.length) || undefined;
  return instance.metadata.labels['loft.sh/project'] || undefined;
}

/**
 * The project from labels that the platform set on the host namespace, so that it is the same
 * without the platform's API.
 */
function hostProject({ metadata: { labels } }: HostNamespace): string | undefined {
  return labels['loft.sh/vcluster-instance-project'] || labels['loft.sh/project'] || undefined;
}
