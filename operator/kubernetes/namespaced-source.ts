import { greatest, least } from '../model/extremes.ts';
import { isRecord } from '../model/is-record.ts';
import { parseJson } from '../model/parse-json.ts';
import type { ReflectorOptions } from './reflector-options.ts';
import { Reflector } from './reflector.ts';
import type { Projected, Source, SourceHealth, SourceState } from './source.ts';

/**
 * Returns one source for all namespaces, or for the given ones with one watch each, so that
 * permissions in those namespaces suffice. In the second case its resourceVersion is a JSON object
 * with the version and freshness of each listed namespace; only this file reads it.
 */
export function createSource<T extends Projected>(
  options: ReflectorOptions<T> & {
    /** Namespaces to watch; empty for all of them, and for a cluster-scoped resource. */
    readonly namespaces: readonly string[];
  },
): Source<T> {
  const { namespaces, ...shared } = options;
  const { resume } = shared;
  if (namespaces.length === 0) {
    // A watch of all namespaces cannot resume from versions of single ones; a list finds the
    // differences.
    const isOfNamespaces = resume?.resourceVersion?.startsWith('{') ?? false;
    return new Reflector({
      ...shared,
      ...(resume && isOfNamespaces && { resume: { ...resume, resourceVersion: undefined } }),
    });
  }
  const points = parsePoints(resume?.resourceVersion);
  const objects = [...(resume?.objects ?? [])];
  const sources = [...new Set(namespaces)].map(
    (namespace) =>
      new Reflector({
        ...shared,
        resource: { ...shared.resource, namespace },
        resume: resume && {
          ...resume,
          ...pointIn(points, namespace, resume.knownAt ?? 0),
          objects: objects.filter((object) => object.namespace === namespace),
        },
      }),
  );
  return new MergedSource(shared.resource, sources);
}

class MergedSource<T extends Projected> implements Source<T> {
  readonly resource: Source<T>['resource'];
  readonly members: readonly Source<T>[];

  constructor(resource: Source<T>['resource'], parts: readonly Source<T>[]) {
    this.resource = resource;
    this.members = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.members.map((source) => source.run(signal)));
  }

  async ready(signal: AbortSignal): Promise<void> {
    await Promise.all(this.members.map((source) => source.ready(signal)));
  }

  health(): SourceHealth {
    return worst(this.members.map((source) => source.health()));
  }

  get size(): number {
    return this.members.reduce((sum, source) => sum + source.size, 0);
  }

  *values(): IterableIterator<T> {
    for (const source of this.members) yield* source.values();
  }

  find(namespace: string, name: string): T | undefined {
    return this.members
      .find(({ resource }) => resource.namespace === namespace)
      ?.find(namespace, name);
  }

  resourceVersion(): string | undefined {
    return formatVersions(this.members);
  }
}

const SEVERITY: Readonly<Record<SourceState, number>> = {
  synced: 0,
  absent: 1,
  starting: 2,
  failing: 3,
};

/** The worst state among the sources, with the oldest `freshAt` and the newest `returnedAt`. */
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

interface NamespacePoint {
  readonly resourceVersion: string | undefined;
  readonly knownAt: number;
}

/** Until when a namespace's objects were known at a resume point; 0 when it was never listed. */
export function knownAtIn(
  point: { readonly resourceVersion?: string; readonly knownAt: number } | undefined,
  namespace: string,
): number {
  if (point === undefined) return 0;
  return pointIn(parsePoints(point.resourceVersion), namespace, point.knownAt).knownAt;
}

function pointIn(
  points: ReadonlyMap<string, Partial<NamespacePoint>> | undefined,
  namespace: string,
  knownAt: number,
): NamespacePoint {
  // Nothing is known about a namespace that was never listed.
  if (points !== undefined && !points.has(namespace))
    return { resourceVersion: undefined, knownAt: 0 };
  const point = points?.get(namespace);
  return { resourceVersion: point?.resourceVersion, knownAt: point?.knownAt ?? knownAt };
}

function formatVersions<T extends Projected>(sources: readonly Source<T>[]): string | undefined {
  const listed = sources.flatMap((source) => {
    const { freshAt } = source.health();
    const { namespace } = source.resource;
    if (freshAt === 0 || namespace === undefined) return [];
    return [[namespace, [source.resourceVersion() ?? null, freshAt]] as const];
  });
  return listed.length === 0 ? undefined : JSON.stringify(Object.fromEntries(listed));
}

/** Undefined when the text holds no namespaces; lists then find the differences. */
function parsePoints(
  text: string | undefined,
): ReadonlyMap<string, Partial<NamespacePoint>> | undefined {
  if (text === undefined || !text.startsWith('{')) return undefined;
  const parsed = parseJson(text);
  if (!isRecord(parsed)) return undefined;
  return new Map(
    Object.entries(parsed).map(([namespace, point]) => [namespace, parsePoint(point)]),
  );
}

/** Reads `[resourceVersion, knownAt]`, or the version alone, as older releases wrote it. */
function parsePoint(point: unknown): Partial<NamespacePoint> {
  if (typeof point === 'string') return { resourceVersion: point };
  const [resourceVersion, knownAt] = Array.isArray(point) ? (point as unknown[]) : [];
  return {
    resourceVersion: typeof resourceVersion === 'string' ? resourceVersion : undefined,
    knownAt: typeof knownAt === 'number' ? knownAt : undefined,
  };
}
