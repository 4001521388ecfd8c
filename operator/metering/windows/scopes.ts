import { clustersIn, type TenantCluster } from '../../discovery/tenant-cluster.ts';
import { knownAtIn } from '../../kubernetes/namespaced-source.ts';
import type { Bracket, Projected } from '../../kubernetes/source.ts';
import type { MeterScope } from '../meters/meters.ts';
import { least } from '../../model/extremes.ts';
import type { Observation } from '../timelines/observation.ts';
import { hostKinds, type HostTimelines, hostTimelines } from './host-kinds.ts';
import { HostScope, singleWatches } from './host-scope.ts';
import { type CollectorState, watchName } from './journal.ts';
import { firstProgress } from './schedule.ts';
import type {
  CollectorSources,
  Scope,
  ScopeProgress,
  ScopeState,
  Settling,
  WatchedSource,
  WatchPoint,
} from './scope.ts';
import { tenantClusterOf, type TenantObjectsList, TenantScopes } from './tenant-scopes.ts';

/** A stretch that no watch of one resource covered. */
export interface UnseenStretch {
  /** The watch's own object, the same at every call. */
  readonly stretch: Bracket;
  /** Start of the stretch, or until when an earlier process knew the state; 0 if none did. */
  readonly from: number;
  /** The plural of the resource. */
  readonly source: string;
  /** The affected kind of usage; or the affected tenant clusters, for a watch of one namespace. */
  readonly scopes: readonly string[];
}

/** All scopes. */
export class Scopes {
  readonly #host: readonly HostScope[];
  /** Tenant clusters with private nodes. */
  readonly tenants: TenantScopes;
  readonly #restored: CollectorState | undefined;
  readonly #lastWindowEnd: number;
  readonly #tenantClustersIn: (namespace: string) => readonly string[];
  /** Timelines with the watches that feed them. */
  readonly #watched: readonly (HostTimelines & {
    readonly sources: readonly WatchedSource[];
  })[];
  /** Watches whose first list has arrived and has been compared with the journal. */
  readonly #listed = new Set<WatchedSource>();

  constructor(options: {
    readonly observation: Observation;
    readonly sources: CollectorSources;
    readonly restored: CollectorState | undefined;
    /** End of the ledger's last window, in case its journal is lost. */
    readonly lastWindowEnd: number | undefined;
    readonly startedAt: number;
    readonly tenants: TenantObjectsList;
    /** Progress of tenant clusters' own APIs, from the journal. */
    readonly restoredTenants: ReadonlyMap<string, ScopeProgress>;
    /** The window size of the settings in force, milliseconds. */
    readonly wantedMs: () => number;
  }) {
    const { observation, restored, sources, lastWindowEnd, startedAt, wantedMs } = options;
    this.#restored = restored;
    this.#lastWindowEnd = lastWindowEnd ?? 0;
    this.#watched = hostTimelines(observation).map((each) => {
      const fed = sources[each.object];
      return { ...each, sources: 'resource' in fed ? [fed] : fed };
    });
    const tenantClustersIn = (namespace: string): readonly string[] =>
      clustersIn(observation.tenantClusters.current, namespace).flatMap(({ id, excluded }) =>
        excluded ? [] : [id],
      );
    this.#tenantClustersIn = tenantClustersIn;
    const sizeMs = wantedMs();
    const first =
      lastWindowEnd === undefined
        ? firstProgress(startedAt, sizeMs)
        : { end: lastWindowEnd, sizeMs };
    this.#host = hostKinds(observation, sources).map(
      (kind) =>
        new HostScope({
          kind,
          progress: restored?.scopes[kind.name] ?? { ...first, meteredFrom: first.end },
          isListed: (watch) => this.#listed.has(watch),
          tenantClustersIn,
        }),
    );
    for (const [name, progress] of Object.entries(restored?.separate ?? {})) {
      const [kind = '', namespace = ''] = name.split('/');
      this.#host.find(({ scope }) => scope.name === kind)?.separateNamespace(namespace, progress);
    }
    this.tenants = new TenantScopes({
      tenants: options.tenants,
      restored: options.restoredTenants,
      host: () => this.#furthest.progress,
      wantedMs,
      learnt: () => observation.tenantClusters.sequence,
    });
  }

  /** Scopes that are measured from watches on this cluster, without separate namespaces. */
  get host(): readonly ScopeState[] {
    return this.#host;
  }

  get #furthest(): HostScope {
    return this.#host.reduce((a, b) => (b.progress.end > a.progress.end ? b : a));
  }

  /** Scopes of this cluster, with separate namespaces. */
  get ofHost(): readonly ScopeState[] {
    return [...this.#host, ...this.#host.flatMap(({ separateScopes: separate }) => separate)];
  }

  /** All scopes, those of tenant clusters included. */
  get all(): readonly ScopeState[] {
    return [...this.ofHost, ...this.tenants.all];
  }

  /** The window size of the scope that is closed furthest. */
  get windowMs(): number {
    return this.#furthest.progress.sizeMs;
  }

  /** Progress of separate namespaces for the journal, by scope and namespace. */
  separate(): Readonly<Record<string, ScopeProgress>> {
    const states = this.#host.flatMap(({ separateScopes: separate }) => separate);
    return Object.fromEntries(states.map(({ scope, progress }) => [scope.name, progress]));
  }

  /** Separates the namespaces that alone block a window of a scope of this cluster. */
  divide(state: ScopeState, settling: Settling): void {
    if (state instanceof HostScope) state.divide(settling);
  }

  /** Separates namespaces of a scope of this cluster. Returns the names of their new scopes. */
  setSeparate(scope: Scope, namespaces: readonly string[]): readonly string[] {
    const state = this.#host.find((each) => each.scope === scope);
    if (state === undefined) return [];
    return namespaces.map((name) =>
      state.separateNamespace(name, state.progress, state.learntUntil),
    );
  }

  /** Rejoins the namespaces that closed the same window as the others. */
  rejoin(closed: readonly ScopeState[]): void {
    for (const state of this.#host) state.rejoin(closed);
  }

  /** Marks each watch as listed at its first list. Resolves when all have listed, or on abort. */
  async awaitLists(signal: AbortSignal): Promise<void> {
    const lists = this.#watched.flatMap(({ timelines, sources }) => {
      const byNamespace = Map.groupBy(singleWatches(sources), ({ resource }) => resource.namespace);
      return [...byNamespace].map(([namespace, watches]) => {
        // Any of the lists ends what the journal has of a namespace that is not watched any more.
        const isListed = (each: string): boolean =>
          namespace === undefined || each === namespace || !byNamespace.has(each);
        return this.#awaitList(timelines, watches, { namespace, isListed }, signal);
      });
    });
    // Only an abort ends the wait for a list early.
    await Promise.allSettled(lists);
  }

  async #awaitList(
    timelines: HostTimelines['timelines'],
    watches: readonly WatchedSource[],
    {
      namespace,
      isListed,
    }: {
      /** The namespace that the watches list; undefined for all. */
      readonly namespace: string | undefined;
      readonly isListed: (namespace: string) => boolean;
    },
    signal: AbortSignal,
  ): Promise<void> {
    await Promise.all(watches.map((watch) => watch.ready(signal)));
    const isPresent = ({ uid, namespace: where, name }: Projected): boolean =>
      watches.some((watch) => watch.find(where, name)?.uid === uid);
    const point = this.#restored?.watches[timelines.kind];
    const knownAt = namespace === undefined ? point?.knownAt : knownAtIn(point, namespace);
    const listedAt = Math.max(0, ...watches.map((watch) => watch.health().freshAt));
    timelines.listed(isPresent, knownAt ?? 0, listedAt, isListed);
    for (const watch of watches) this.#listed.add(watch);
  }

  /** Where each watch can be resumed. For a watch that has not listed yet, the journal's point. */
  watchPoints(now: number): Readonly<Record<string, WatchPoint>> {
    return Object.fromEntries(
      this.#watched.flatMap(({ timelines: { kind }, sources }) => [
        ...this.#pointOf(kind, sources, now),
        // Watches of a kind with several watches resume separately.
        ...(sources.length === 1 ? [] : sources).flatMap((source) =>
          this.#pointOf(watchName(kind, source.resource.plural), [source], now),
        ),
      ]),
    );
  }

  /** Stretches that no watch covered, for this cluster's objects that are charged by lifetime. */
  unseen(): readonly UnseenStretch[] {
    const charged = this.#watched.filter(({ isCharged }) => isCharged);
    return charged.flatMap(({ timelines: { kind }, sources, scope }) =>
      singleWatches(sources).flatMap((watch) => this.#unseenOf(kind, watch, scope)),
    );
  }

  #unseenOf(kind: string, watch: WatchedSource, billed: MeterScope): readonly UnseenStretch[] {
    const { plural: source, namespace } = watch.resource;
    const { watches } = this.#restored ?? {};
    const point = watches?.[watchName(kind, source)] ?? watches?.[kind];
    const before = namespace === undefined ? (point?.knownAt ?? 0) : knownAtIn(point, namespace);
    const knownAt = watches === undefined ? this.#lastWindowEnd : before;
    const own = namespace === undefined ? [billed] : this.#tenantClustersIn(namespace);
    return (watch.health().unseen ?? []).map((stretch) => {
      const from = Math.max(stretch.from, knownAt);
      return { stretch, from, source, scopes: own.length > 0 ? own : [namespace ?? billed] };
    });
  }

  #pointOf(
    name: string,
    sources: readonly WatchedSource[],
    now: number,
  ): readonly (readonly [name: string, point: WatchPoint])[] {
    const before = this.#restored?.watches[name];
    const listed = singleWatches(sources).filter((watch) => this.#listed.has(watch));
    const isComplete = sources.every((source) =>
      (source.members ?? [source]).some((watch) => this.#listed.has(watch)),
    );
    const point = isComplete ? pointOf(sources, listed, before, now) : before;
    return point === undefined ? [] : [[name, point]];
  }
}

/** The ids of a scope's tenant clusters; empty for a scope of all tenant clusters. */
export function tenantClustersOf(
  name: string,
  current: readonly TenantCluster[],
): readonly string[] {
  const own = tenantClusterOf(name);
  if (own !== undefined) return [own];
  const [, namespace] = name.split('/');
  return namespace === undefined ? [] : clustersIn(current, namespace).map(({ id }) => id);
}

/** A resumed watch without news knows what was known before. */
function pointOf(
  watched: readonly WatchedSource[],
  listed: readonly WatchedSource[],
  before: WatchPoint | undefined,
  now: number,
): WatchPoint {
  const freshAt = Math.min(now, least(listed.map((watch) => watch.health().freshAt)));
  const knownAt = Math.max(freshAt, before?.knownAt ?? 0);
  const resourceVersion = watched.length === 1 ? watched[0]?.resourceVersion() : undefined;
  return { knownAt, resourceVersion };
}
