import type { Projection } from '../kubernetes/source.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type {
  Candidate,
  FoundTenants,
  HostObjects,
  NamedKind,
  TenantObject,
  TenantResource,
} from './tenant-source.ts';
import { createdAtOf, identityOf, metadataOf } from './views.ts';

/** Takes the tenant clusters of one resource. */
export function tenantObject(
  { describe }: TenantResource,
  labelPrefix: string,
): Projection<TenantObject> {
  return (object) => {
    const identity = identityOf(object);
    const described = identity && describe(object, identity);
    if (identity === undefined || described === undefined) return undefined;
    const metadata = metadataOf(object, labelPrefix);
    return { ...identity, ...described, metadata, createdAt: createdAtOf(object) };
  };
}

/** The tenant clusters that custom resources of a kind stand for. */
export function findByObjects(source: NamedKind, host: HostObjects): FoundTenants {
  return {
    candidates: [...host.objects(source)]
      .map((object) => candidateOf(source, object))
      .toSorted(byAge),
    problems: [],
    refusedNamespaces: new Set(),
  };
}

function candidateOf(source: NamedKind, object: TenantObject): Candidate {
  const { namespace, name, createdAt, nodeMode, runsOnControlPlane, kubeconfig } = object;
  return {
    source,
    namespace: nodeMode === 'private' ? '' : namespace,
    home: namespace,
    name,
    objects: [object],
    nodeMode,
    createdAt,
    ...omitUndefined({ runsOnControlPlane, kubeconfigSecret: kubeconfig }),
  };
}

function byAge(a: Candidate, b: Candidate): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  return compareBytewise(a.home ?? '', b.home ?? '') || compareBytewise(a.name, b.name);
}
