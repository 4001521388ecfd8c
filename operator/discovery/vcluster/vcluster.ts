import { compareBytewise } from '../../model/bytewise.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { placeKey } from '../cluster-ids.ts';
import type { Candidate, HostObjects, TenantSource } from '../tenant-source.ts';
import { findInstallations, type Installation } from './installations.ts';
import { hostProject, projectOf } from './platform-project.ts';
import { findSyncedNamespaces } from './synced-namespaces.ts';

/** Tenant clusters of vCluster: their workloads, the platform's instances, and namespaces that syncers map. */
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
      ...omitUndefined({ syncedNamespaces: synced.byPlace.get(placeKey(installation)) }),
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
    ...omitUndefined({
      instance,
      project: projectOf(instance) ?? (home && hostProject(home)),
      displayName: instance?.displayName,
      nodeMode: instance?.nodeMode,
    }),
  };
}
