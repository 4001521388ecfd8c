import { NAMED_BY_KEY } from '../../settings/parsers/kubernetes-names.ts';
import { boolean, text } from '../../settings/parsers/scalars.ts';
import { compareBytewise } from '../../model/bytewise.ts';
import { least } from '../../model/extremes.ts';
import { quote } from '../../model/quote.ts';
import type { Candidate, HostObjects, TenantSource } from '../tenant-source.ts';
import { byAge, type HostNamespace, LONGEST_NAME } from '../views.ts';

/** Prefix of Kubernetes' own namespaces. */
const SYSTEM_PREFIX = 'kube-';
const TENANT = text(LONGEST_NAME);
const EXCLUDE = boolean();

/**
 * Namespaces that a label or annotation gives to a tenant: of Capsule, Rancher projects, OpenShift,
 * hierarchical namespaces, or no product (docs/how-to/tenants/namespaces.md). Only writers of
 * Namespaces decide; objects inside a namespace do not matter.
 */
export const namespaces: TenantSource = {
  name: 'namespaces',
  find: (host) => {
    const problems: string[] = [];
    const byTenant = new Map<string, HostNamespace[]>();
    for (const namespace of eligible(host)) {
      const tenant = tenantOf(namespace, host, problems);
      if (tenant === undefined) continue;
      const known = byTenant.get(tenant) ?? [];
      byTenant.set(tenant, known);
      known.push(namespace);
    }
    return {
      candidates: [...byTenant].map(candidateOf).toSorted(byAge),
      problems,
      refusedNamespaces: new Set(),
    };
  },
};

/** Namespaces that may belong to a tenant, without excluded ones; sorted by name. */
function eligible({
  namespaces: all,
  settings,
  labelPrefix,
  ownNamespace,
}: HostObjects): readonly HostNamespace[] {
  const watched = new Set(settings.watchNamespaces);
  return [...all]
    .filter(({ name }) => watched.size === 0 || watched.has(name))
    .filter(({ name }) => !name.startsWith(SYSTEM_PREFIX) && name !== ownNamespace)
    .filter((namespace) => !isExcluded(namespace, `${labelPrefix}/exclude`))
    .toSorted((a, b) => compareBytewise(a.name, b.name));
}

/** Excludes one namespace, not the whole tenant. */
function isExcluded(namespace: HostNamespace, key: string): boolean {
  const parsed = EXCLUDE.parse(valueAt(namespace, key) ?? '');
  return parsed.kind === 'value' && parsed.value;
}

function tenantOf(
  namespace: HostNamespace,
  { settings, labelPrefix }: HostObjects,
  problems: string[],
): string | undefined {
  const { namespaceTenantKeys: given } = settings;
  for (const key of given.length > 0 ? given : [`${labelPrefix}/tenant`]) {
    const named = key.startsWith(NAMED_BY_KEY)
      ? namedByKey(namespace, key.slice(NAMED_BY_KEY.length - 1))
      : valueAt(namespace, key);
    if (named === undefined) continue;
    const parsed = TENANT.parse(named);
    if (parsed.kind === 'value') return parsed.value;
    problems.push(
      `Namespace ${namespace.name}: ${key}: ${parsed.what}: ${quote(named)}; ${parsed.fix}`,
    );
    return undefined;
  }
  return undefined;
}

/** The annotation comes before the label, as for metadata keys. */
function valueAt({ metadata }: HostNamespace, key: string): string | undefined {
  const { annotations, labels } = metadata;
  return annotations[key]?.trim() || labels[key]?.trim() || undefined;
}

/**
 * The part of a key before `ending`. A hierarchical namespace has one label for each ancestor, with
 * its distance; the farthest is the root
 * (https://github.com/kubernetes-sigs/hierarchical-namespaces).
 */
function namedByKey({ metadata }: HostNamespace, ending: string): string | undefined {
  const named = Object.entries({ ...metadata.labels, ...metadata.annotations })
    .filter(([key]) => key.endsWith(ending) && key.length > ending.length)
    .map(([key, value]) => ({ name: key.slice(0, -ending.length), distance: Number(value) || 0 }))
    .toSorted((a, b) => b.distance - a.distance || compareBytewise(a.name, b.name));
  return named[0]?.name;
}

function candidateOf([name, own]: readonly [string, readonly HostNamespace[]]): Candidate {
  return {
    source: 'namespaces',
    namespace: '',
    name,
    objects: [],
    syncedNamespaces: own.map((each) => ({ name: each.name, createdAt: each.createdAt })),
    displayName: name,
    nodeMode: 'shared',
    createdAt: least(own.map(({ createdAt }) => createdAt)),
  };
}
