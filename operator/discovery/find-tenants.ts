import { least } from '../model/extremes.ts';
import { SOURCES } from './registry.ts';
import type { Candidate, FoundTenants, HostObjects, TenantSource } from './tenant-source.ts';

/** Namespaces in one line of a problem. */
const MOST_NAMED = 5;

/**
 * What the kinds of tenants that are looked for find on the host cluster. A namespace that two kinds claim is
 * the more specific one's, and one that it refuses is nobody's (docs/discovery.md#several-kinds-of-tenants).
 */
export function findTenants(
  host: HostObjects,
  sources: readonly TenantSource[] = SOURCES,
): FoundTenants {
  const candidates: Candidate[] = [];
  const problems: string[] = [];
  const refusedNamespaces = new Set<string>();
  const taken = new Set<string>();
  for (const source of sources.filter(({ name }) => host.settings.sources.includes(name))) {
    const found = source.find(host);
    const overlap = new Set<string>();
    const left = found.candidates.flatMap((candidate) => withoutTaken(candidate, taken, overlap));
    candidates.push(...left);
    problems.push(...found.problems, ...overlapProblem(source, [...overlap]));
    for (const name of found.refusedNamespaces) refusedNamespaces.add(name);
    const own = left.flatMap(({ namespace, syncedNamespaces = [] }) => [
      namespace,
      ...syncedNamespaces.map(({ name }) => name),
    ]);
    for (const name of [...own, ...found.refusedNamespaces]) taken.add(name);
  }
  return { candidates, problems, refusedNamespaces };
}

/** The candidate without namespaces that are another's already; none where they were all that there is of it. */
function withoutTaken(
  candidate: Candidate,
  taken: ReadonlySet<string>,
  overlap: Set<string>,
): readonly Candidate[] {
  const { syncedNamespaces = [], namespace, createdAt } = candidate;
  const left = syncedNamespaces.filter(({ name }) => !taken.has(name));
  if (left.length === syncedNamespaces.length) return [candidate];
  for (const { name } of syncedNamespaces) if (taken.has(name)) overlap.add(name);
  if (namespace === '' && left.length === 0) return [];
  const since = namespace === '' ? least(left.map((one) => one.createdAt)) : createdAt;
  return [{ ...candidate, syncedNamespaces: left, createdAt: since }];
}

function overlapProblem({ name: kind }: TenantSource, names: readonly string[]): readonly string[] {
  if (names.length === 0) return [];
  const named = names.toSorted().slice(0, MOST_NAMED).join(', ');
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : '';
  return [
    `Namespaces that the kind ${kind} gives to a tenant are those of a more specific kind, which alone is billed for what is in them: ${named}${more}`,
  ];
}
