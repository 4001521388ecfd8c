import { identity, type KubernetesObject } from '../charts/kustomize.ts';

/** Rights of the operator's account, in the form of a ClusterServiceVersion. */
export interface Rights {
  readonly cluster: readonly unknown[];
  /** Rights in the namespace of the installation. */
  readonly own: readonly unknown[];
  /** ClusterRoles without a binding, which people get by aggregation. */
  readonly unbound: readonly KubernetesObject[];
}

/**
 * Rights in namespaces of others, which a bundle cannot grant. An administrator grants these two by
 * hand, and the operator works without them (docs/how-to/olm.md#before-you-install). The same
 * rights in all namespaces would be too broad.
 */
export const BY_HAND: readonly string[] = ['Role default/meterfeed-events'];

type Role = KubernetesObject & { readonly rules: readonly unknown[] };
type Binding = KubernetesObject & {
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects: readonly { readonly kind: string; readonly name: string }[];
};

/**
 * Returns the rights that roles and bindings give to the service account `account` in `namespace`.
 * Throws for a right that a bundle cannot grant and that is not listed above.
 */
export function rightsOf(
  objects: readonly KubernetesObject[],
  account: string,
  namespace: string,
): Rights {
  const roles = objects.filter((object): object is Role => 'rules' in object);
  const bindings = objects.filter((object): object is Binding => 'roleRef' in object);
  const byIdentity = new Map(roles.map((role) => [identity(role), role]));
  const bound = new Set(bindings.map((binding) => boundBy(binding, account, byIdentity)));
  const cluster = [...bound].filter(({ kind }) => kind === 'ClusterRole');
  const own = [...bound].filter(({ metadata }) => metadata.namespace === namespace);
  const unknown = [...bound].find(
    (role) => !cluster.includes(role) && !own.includes(role) && !BY_HAND.includes(identity(role)),
  );
  if (unknown !== undefined) {
    throw new Error(`a bundle gives no rights in another namespace: "${identity(unknown)}"`);
  }
  return {
    cluster: cluster.flatMap(({ rules }) => rules),
    own: own.flatMap(({ rules }) => rules),
    unbound: roles.filter((role) => !bound.has(role)),
  };
}

function boundBy(binding: Binding, account: string, roles: ReadonlyMap<string, Role>): Role {
  const [subject, ...others] = binding.subjects;
  if (subject?.kind !== 'ServiceAccount' || subject.name !== account || others.length > 0) {
    throw new Error(`${identity(binding)}: binds others than "${account}"`);
  }
  const { kind, name } = binding.roleRef;
  const role = roles.get(identity({ kind, metadata: { ...binding.metadata, name } }));
  if (role === undefined) throw new Error(`${identity(binding)}: no such role: "${name}"`);
  return role;
}
