import { identityOf } from '../kubernetes/raw-fields.ts';
import type { Projection } from '../kubernetes/source.ts';
import { compareBytewise } from '../model/bytewise.ts';
import type {
  Candidate,
  FoundTenants,
  HostObjects,
  NamedKind,
  TenantObject,
  TenantResource,
} from './tenant-source.ts';
import { byAge, createdAtOf, metadataOf } from './views.ts';

/** Projects custom resources of one kind to tenant objects. */
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

/**
 * The tenant clusters that custom resources of a kind represent, without those that a more specific
 * kind finds.
 */
export function findByObjects(source: NamedKind, host: HostObjects): FoundTenants {
  const objects = [...host.objects(source)];
  const isOthers = ({ otherKind }: TenantObject) =>
    otherKind !== undefined && host.settings.sources.includes(otherKind);
  const others = objects.filter(isOthers);
  const own = objects.filter((object) => !isOthers(object));
  return {
    candidates: own.toSorted(byAge).map((object) => candidateOf(source, object)),
    problems: overlapProblem(
      `Objects of ${source} belong to tenants of a more specific kind, which alone are billed for them`,
      others.map(({ namespace, name }) => `${namespace}/${name}`),
    ),
    refusedNamespaces: new Set(),
  };
}

/** Most names in one problem line. */
const MOST_NAMED = 5;

/** One line for everything that two kinds claim; empty if that is nothing. */
export function overlapProblem(what: string, names: readonly string[]): readonly string[] {
  if (names.length === 0) return [];
  const named = names.toSorted(compareBytewise).slice(0, MOST_NAMED).join(', ');
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : '';
  return [`${what}: ${named}${more}`];
}

function candidateOf(source: NamedKind, object: TenantObject): Candidate {
  const { namespace, name, createdAt, nodeMode, runsOnControlPlane } = object;
  const { kubeconfig: kubeconfigSecret, machineCluster } = object;
  return {
    source,
    namespace: nodeMode === 'private' ? '' : namespace,
    home: namespace,
    name,
    objects: [object],
    nodeMode,
    createdAt,
    runsOnControlPlane,
    kubeconfigSecret,
    machineCluster,
  };
}
