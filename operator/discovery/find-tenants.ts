import { least } from '../model/extremes.ts';
import { SOURCES } from './registry.ts';
import { overlapProblem } from './tenant-objects.ts';
import type { Candidate, FoundTenants, HostObjects, TenantSource } from './tenant-source.ts';

/**
 * The tenants that the configured kinds find on the host cluster. When two kinds claim a namespace:
 * 1. The more specific kind gets it.
 * 2. If that kind refuses it, it belongs to nobody.
 * 3. If the more specific kind labels all of its objects, the others belong to the other kind
 *    (docs/explanation/discovery.md#several-kinds-of-tenants).
 */
export function findTenants(host: HostObjects): FoundTenants {
  const candidates: Candidate[] = [];
  const problems: string[] = [];
  const refusedNamespaces = new Set<string>();
  const taken = new Set<string>();
  const shared = new Set<string>();
  const given = new Map<string, Candidate>();
  for (const source of SOURCES.filter(({ name }) => host.settings.sources.includes(name))) {
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

/**
 * A tenant cluster in a Namespace that a key gives to a tenant belongs to that tenant, whoever
 * created it.
 */
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

/** The candidate without namespaces that belong to another; nothing if none are left. */
function withoutTaken(candidate: Candidate, taken: ReadonlySet<string>): readonly Candidate[] {
  const { syncedNamespaces = [], namespace, createdAt } = candidate;
  const left = syncedNamespaces.filter(({ name }) => !taken.has(name));
  if (left.length === syncedNamespaces.length) return [candidate];
  if (namespace === '' && left.length === 0) return [];
  const since = namespace === '' ? least(left.map((one) => one.createdAt)) : createdAt;
  return [{ ...candidate, syncedNamespaces: left, createdAt: since }];
}

/**
 * At most one line for namespaces that are not billed to the kind at all, and one for those partly
 * billed to it.
 */
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
      `${what} belong to a more specific kind, which alone is billed for everything in them`,
      claimed.filter((name) => taken.has(name)),
    ),
    ...overlapProblem(
      `${what} contain tenant clusters of a more specific kind, which are billed for the objects of their controllers, and the tenant for all others`,
      claimed.filter((name) => shared.has(name) && !taken.has(name)),
    ),
  ];
}

/** Reports namespaces with several kinds: tenants of one kind can write the labels of the other. */
function sharedNamespaceProblems(candidates: readonly Candidate[]): readonly string[] {
  const inNamespaces = candidates.filter(({ namespace }) => namespace !== '');
  const byNamespace = Map.groupBy(inNamespaces, ({ namespace }) => namespace);
  return [...byNamespace].flatMap(([namespace, own]) => {
    const kinds = new Set(own.map(({ source }) => (source === 'workload' ? 'vcluster' : source)));
    if (kinds.size < 2) return [];
    return [
      `Namespace ${namespace}: contains tenant clusters of several kinds (${[...kinds].join(', ')}), whose tenants can write each other's labels: an object that two of them name is billed to nobody; give each kind a separate namespace`,
    ];
  });
}
