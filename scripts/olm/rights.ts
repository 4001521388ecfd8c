import { identity, type KubernetesObject } from '../charts/kustomize.ts';

/** What the operator's account may do, as a ClusterServiceVersion says it. */
export interface Rights {
  readonly cluster: readonly unknown[];
  /** In the namespace that is installed to. */
  readonly own: readonly unknown[];
  /** ClusterRoles that are bound to nobody: they are for people, by aggregation. */
  readonly unbound: readonly KubernetesObject[];
}

/**
 * A bundle gives no rights in namespaces of others. These two are given by hand, and the operator does without
 * (docs/how-to/olm.md#before-you-install); the same rights in all namespaces would be too much.
 */
export const BY_HAND: readonly string[] = ['Role default/meterfeed-events'];

type Role = KubernetesObject & { readonly rules: readonly unknown[] };
type Binding = KubernetesObject & {
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects: readonly { readonly kind: string; readonly name: string }[];
};

/**
 * The rights that roles and bindings give to the service account `account`, whose namespace is `namespace`. Throws for one
 * that a bundle cannot give and that nobody has thought about.
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
