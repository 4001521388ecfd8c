import { least } from '../model/extremes.ts';
import { SOURCES } from './registry.ts';
import { overlapProblem } from './tenant-objects.ts';
import type { Candidate, FoundTenants, HostObjects, TenantSource } from './tenant-source.ts';

/**
 * What the kinds of tenants that are looked for find on the host cluster. A namespace that two kinds claim is
 * the more specific one's, and one that it refuses is nobody's; where the more specific kind labels all that is
 * its own, the rest is the other's (docs/explanation/discovery.md#several-kinds-of-tenants).
 */
export function findTenants(
  host: HostObjects,
  sources: readonly TenantSource[] = SOURCES,
): FoundTenants {
  const candidates: Candidate[] = [];
  const problems: string[] = [];
  const refusedNamespaces = new Set<string>();
  const taken = new Set<string>();
  const shared = new Set<string>();
  const given = new Map<string, Candidate>();
  for (const source of sources.filter(({ name }) => host.settings.sources.includes(name))) {
    const found = source.find(host);
    const claimed = found.candidates.flatMap(completeNamespacesOf);
    if (source.name === 'namespaces') {
      for (const each of found.candidates) {
        for (const name of completeNamespacesOf(each)) given.set(name, each);
      }
    }
    const left = found.candidates.flatMap((candidate) => withoutTaken(candidate, taken));
    candidates.push(...left);
    problems.push(...found.problems, ...overlapProblems(source, claimed, { taken, shared }));
    for (const name of found.refusedNamespaces) refusedNamespaces.add(name);
    const homes = left.flatMap(({ namespace }) => (namespace === '' ? [] : namespace));
    for (const name of homes) (source.claim === undefined ? taken : shared).add(name);
    for (const name of left.flatMap(completeNamespacesOf)) taken.add(name);
    for (const name of found.refusedNamespaces) taken.add(name);
  }
  problems.push(...sharedNamespaceProblems(candidates));
  return { candidates: withNamespaceTenants(candidates, given), problems, refusedNamespaces };
}

/** What is found inside of a Namespace that a key gives to a tenant is that tenant's, whoever made it. */
function withNamespaceTenants(
  candidates: readonly Candidate[],
  given: ReadonlyMap<string, Candidate>,
): readonly Candidate[] {
  return candidates.map((candidate) => {
    const tenant = given.get(candidate.home ?? candidate.namespace);
    return tenant === undefined ? candidate : { ...candidate, namespaceTenant: tenant };
  });
}

function completeNamespacesOf({ syncedNamespaces = [] }: Candidate): readonly string[] {
  return syncedNamespaces.map(({ name }) => name);
}

/** The candidate without namespaces that are another's already; none where they were all that there is of it. */
function withoutTaken(candidate: Candidate, taken: ReadonlySet<string>): readonly Candidate[] {
  const { syncedNamespaces = [], namespace, createdAt } = candidate;
  const left = syncedNamespaces.filter(({ name }) => !taken.has(name));
  if (left.length === syncedNamespaces.length) return [candidate];
  if (namespace === '' && left.length === 0) return [];
  const since = namespace === '' ? least(left.map((one) => one.createdAt)) : createdAt;
  return [{ ...candidate, syncedNamespaces: left, createdAt: since }];
}

/** At most one line for what is not billed to a kind at all, and one for what is so in part. */
function overlapProblems(
  { name: kind }: TenantSource,
  claimed: readonly string[],
  {
    taken,
    shared,
  }: {
    readonly taken: ReadonlySet<string>;
    readonly shared: ReadonlySet<string>;
  },
): readonly string[] {
  const what = `Namespaces that the kind ${kind} gives to a tenant`;
  return [
    ...overlapProblem(
      `${what} are those of a more specific kind, which alone is billed for what is in them`,
      claimed.filter((name) => taken.has(name)),
    ),
    ...overlapProblem(
      `${what} hold tenant clusters of a more specific kind, which are billed for what their controllers brought, and the tenant for all else`,
      claimed.filter((name) => shared.has(name) && !taken.has(name)),
    ),
  ];
}

/** In such a namespace the labels of one kind are what tenants of the other can write. */
function sharedNamespaceProblems(candidates: readonly Candidate[]): readonly string[] {
  const inNamespaces = candidates.filter(({ namespace }) => namespace !== '');
  const byNamespace = Map.groupBy(inNamespaces, ({ namespace }) => namespace);
  return [...byNamespace].flatMap(([namespace, own]) => {
    const kinds = new Set(own.map(({ source }) => (source === 'workload' ? 'vcluster' : source)));
    if (kinds.size < 2) return [];
    return [
      `Namespace ${namespace}: holds tenant clusters of several kinds (${[...kinds].join(', ')}), whose tenants can write each other's labels: what two of them name is billed to nobody; give each kind a namespace of its own`,
    ];
  });
}
