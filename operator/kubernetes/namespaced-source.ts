import { greatest, least } from '../model/extremes.ts';
import { isRecord } from '../model/is-record.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { ReflectorOptions } from './reflector-options.ts';
import { createReflector } from './reflector.ts';
import type { Projected, Source, SourceHealth, SourceState } from './source.ts';

export interface NamespacedSourceOptions<T extends Projected> extends ReflectorOptions<T> {
  /** Those to watch; empty means all, or a cluster-scoped resource. */
  readonly namespaces: readonly string[];
}

/**
 * One source over everything, or over the given namespaces with one watch each, so that rights in
 * those namespaces suffice. Its resourceVersion is then a JSON object of one version per namespace,
 * which only this function reads again.
 */
export function createSource<T extends Projected>(options: NamespacedSourceOptions<T>): Source<T> {
  const { namespaces, ...shared } = options;
  const { resume } = shared;
  if (namespaces.length === 0) {
    // Versions of single namespaces say nothing of all: a list finds the differences.
    const isOfNamespaces = resume?.resourceVersion?.startsWith('{') ?? false;
    return createReflector({
      ...shared,
      ...(resume && isOfNamespaces && { resume: { ...resume, resourceVersion: undefined } }),
    });
  }
  const versions = parseVersions(resume?.resourceVersion);
  const objects = [...(resume?.objects ?? [])];
  const sources = [...new Set(namespaces)].map((namespace) =>
    createReflector({
      ...shared,
      resource: { ...shared.resource, namespace },
      ...omitUndefined({
        resume: resume && {
          ...resume,
          resourceVersion: versions.get(namespace),
          objects: objects.filter((object) => object.namespace === namespace),
        },
      }),
    }),
  );
  return mergeSources(shared.resource, sources);
}

function mergeSources<T extends Projected>(
  resource: Source<T>['resource'],
  sources: readonly Source<T>[],
): Source<T> {
  return {
    resource,
    run: async (signal) => {
      await Promise.all(sources.map((source) => source.run(signal)));
    },
    ready: async (signal) => {
      await Promise.all(sources.map((source) => source.ready(signal)));
    },
    health: () => worst(sources.map((source) => source.health())),
    get size() {
      return sources.reduce((sum, source) => sum + source.size, 0);
    },
    values: function* () {
      for (const source of sources) yield* source.values();
    },
    find: (namespace, name) =>
      sources.find((source) => source.resource.namespace === namespace)?.find(namespace, name),
    resourceVersion: () => formatVersions(sources),
  };
}

const SEVERITY: Readonly<Record<SourceState, number>> = {
  synced: 0,
  absent: 1,
  starting: 2,
  failing: 3,
};

/** The state of the worst of them, with the oldest freshness and the newest return of all. */
function worst(healths: readonly SourceHealth[]): SourceHealth {
  const first = healths.reduce((a, b) => (SEVERITY[b.state] > SEVERITY[a.state] ? b : a));
  const freshAt = least(healths.map((health) => health.freshAt));
  const returns = healths.flatMap(({ returnedAt }) => returnedAt ?? []);
  return {
    ...first,
    freshAt,
    ...(returns.length === 0 ? {} : { returnedAt: greatest(returns) }),
  };
}

function formatVersions<T extends Projected>(sources: readonly Source<T>[]): string | undefined {
  const versions = sources.map((source) => [source.resource.namespace, source.resourceVersion()]);
  if (versions.some(([, version]) => version === undefined)) return undefined;
  return JSON.stringify(Object.fromEntries(versions));
}

/** Empty when it was written for other namespaces or for none: then a list finds the differences. */
function parseVersions(text: string | undefined): ReadonlyMap<string, string> {
  if (text === undefined || !text.startsWith('{')) return new Map();
  try {
    const parsed: unknown = JSON.parse(text);
    const entries = isRecord(parsed) ? Object.entries(parsed) : [];
    return new Map(
      entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    );
  } catch {
    return new Map();
  }
}
