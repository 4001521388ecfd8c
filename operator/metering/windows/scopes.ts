import { clustersIn, type TenantCluster } from '../../discovery/tenant-cluster.ts';
import { knownAtIn } from '../../kubernetes/namespaced-source.ts';
import type { Bracket, Projected } from '../../kubernetes/source.ts';
import type { MeterScope } from '../meters/meters.ts';
import { least } from '../../model/extremes.ts';
import type { Observation } from '../timelines/observation.ts';
import { hostKinds, type HostTimelines, hostTimelines } from './host-kinds.ts';
import { HostScope, partsOf } from './host-scope.ts';
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
import {
  createTenantScopes,
  tenantClusterOf,
  type TenantObjectsList,
  type TenantScopes,
} from './tenant-scopes.ts';

/** A stretch that no watch of one resource covered. */
export interface UnseenStretch {
  /** As the watch has it; the same value at every call. */
  readonly stretch: Bracket;
  /** From when on, where a process before this one knew more; 0 where nobody knew anything. */
  readonly from: number;
  /** The plural of the resource. */
  readonly source: string;
  /** The kind of usage that it costs, or each tenant cluster of its namespace where the watch is of one. */
  readonly scopes: readonly string[];
}

export interface ScopesOptions {
  readonly observation: Observation;
  readonly sources: CollectorSources;
  readonly restored: CollectorState | undefined;
  /** What the ledger says, for a ledger whose journal is lost. */
  readonly lastWindowEnd: number | undefined;
  readonly startedAt: number;
  readonly windowMs: number;
  readonly tenants: TenantObjectsList;
  /** Progress of tenant clusters' own APIs out of the journal. */
  readonly restoredTenants: ReadonlyMap<string, ScopeProgress>;
  readonly wantedMs: () => number;
}

/** Timelines with the watches that feed them. */
interface Watched extends HostTimelines {
  readonly sources: readonly WatchedSource[];
}

/** What a watch lists: one namespace, or everything. */
interface ListedPart {
  readonly namespace: string | undefined;
  readonly isListed: (namespace: string) => boolean;
}

/** All scopes. */
export class Scopes {
  readonly #host: readonly HostScope[];
  /** Tenant clusters with nodes of their own. */
  readonly tenants: TenantScopes;
  readonly #restored: CollectorState | undefined;
  readonly #lastWindowEnd: number;
  readonly #tenantClustersIn: (namespace: string) => readonly string[];
  readonly #watched: readonly Watched[];
  /** Watches whose first list is in, and has been compared with the journal. */
  readonly #listed = new Set<WatchedSource>();

  constructor(options: ScopesOptions) {
    const { observation, restored, sources } = options;
    this.#restored = restored;
    this.#lastWindowEnd = options.lastWindowEnd ?? 0;
    this.#watched = hostTimelines(observation).map((each) => {
      const fed = sources[each.object];
      return { ...each, sources: 'resource' in fed ? [fed] : fed };
    });
    const tenantClustersIn = (namespace: string): readonly string[] =>
      clustersIn(observation.tenantClusters.current, namespace).flatMap(({ id, excluded }) =>
        excluded ? [] : [id],
      );
    this.#tenantClustersIn = tenantClustersIn;
    this.#host = hostKinds(observation, sources).map(
      (kind) =>
        new HostScope({
          kind,
          progress: restored?.scopes[kind.name] ?? progressWithoutJournal(options),
          isListed: (part) => this.#listed.has(part),
          tenantClustersIn,
        }),
    );
    for (const [name, progress] of Object.entries(restored?.apart ?? {})) {
      const [kind = '', namespace = ''] = name.split('/');
      this.#host.find(({ scope }) => scope.name === kind)?.setApart(namespace, progress);
    }
    this.tenants = createTenantScopes({
      tenants: options.tenants,
      restored: options.restoredTenants,
      host: () => this.#furthest.progress,
      wantedMs: options.wantedMs,
      learnt: () => observation.tenantClusters.sequence,
    });
  }

  /** What is metered out of watches on this cluster, but for namespaces that are apart. */
  get host(): readonly ScopeState[] {
    return this.#host;
  }

  get #furthest(): HostScope {
    return this.#host.reduce((a, b) => (b.progress.end > a.progress.end ? b : a));
  }

  /** The same with the namespaces that are apart. */
  get ofHost(): readonly ScopeState[] {
    return [...this.#host, ...this.#host.flatMap(({ apart: separate }) => separate)];
  }

  /** All of them. */
  get all(): readonly ScopeState[] {
    return [...this.ofHost, ...this.tenants.all];
  }

  /** The window size in force where windows are closed furthest. */
  get windowMs(): number {
    return this.#furthest.progress.sizeMs;
  }

  /** How far the windows of namespaces are closed that are apart, by scope and namespace; for the journal. */
  separate(): Readonly<Record<string, ScopeProgress>> {
    const states = this.#host.flatMap(({ apart: separate }) => separate);
    return Object.fromEntries(states.map(({ scope, progress }) => [scope.name, progress]));
  }

  /** Sets those namespaces apart that alone hold back a window of a scope of this cluster. */
  divide(state: ScopeState, settling: Settling): void {
    if (state instanceof HostScope) state.divide(settling);
  }

  /** Sets namespaces of a scope of this cluster apart; gives the names of their own scopes. */
  setSeparate(scope: Scope, namespaces: readonly string[]): readonly string[] {
    const state = this.#host.find((each) => each.scope === scope);
    if (state === undefined) return [];
    return namespaces.map((name) => state.setApart(name, state.progress, state.learntUntil));
  }

  /** Takes those back that were closed with the same window as the others. */
  rejoin(closed: readonly ScopeState[]): void {
    for (const state of this.#host) state.rejoin(closed);
  }

  /** Marks each scope as listed when its watches are; resolves when all are, or on abort. */
  async awaitLists(signal: AbortSignal): Promise<void> {
    const lists = this.#watched.flatMap(({ timelines, sources }) => {
      const byNamespace = Map.groupBy(partsOf(sources), ({ resource }) => resource.namespace);
      return [...byNamespace].map(([namespace, parts]) => {
        // What the journal has of a namespace that is not watched any more ends with any of the lists.
        const isListed = (each: string): boolean =>
          namespace === undefined || each === namespace || !byNamespace.has(each);
        return this.#awaitList(timelines, parts, { namespace, isListed }, signal);
      });
    });
    // Only an abort ends the wait for a list early.
    await Promise.allSettled(lists);
  }

  async #awaitList(
    timelines: HostTimelines['timelines'],
    parts: readonly WatchedSource[],
    { namespace, isListed }: ListedPart,
    signal: AbortSignal,
  ): Promise<void> {
    await Promise.all(parts.map((part) => part.ready(signal)));
    const holds = ({ uid, namespace: where, name }: Projected): boolean =>
      parts.some((part) => part.find(where, name)?.uid === uid);
    const point = this.#restored?.watches[timelines.kind];
    const knownAt = namespace === undefined ? point?.knownAt : knownAtIn(point, namespace);
    const listedAt = Math.max(0, ...parts.map((part) => part.health().freshAt));
    timelines.listed(holds, knownAt ?? 0, listedAt, isListed);
    for (const part of parts) this.#listed.add(part);
  }

  /** Where each watch could be resumed; one that has not listed yet, where the journal said. */
  watchPoints(now: number): Readonly<Record<string, WatchPoint>> {
    return Object.fromEntries(
      this.#watched.flatMap(({ timelines: { kind }, sources }) => [
        ...this.#pointOf(kind, sources, now),
        // Where a kind has several watches each of them goes on by itself.
        ...(sources.length === 1 ? [] : sources).flatMap((source) =>
          this.#pointOf(watchName(kind, source.resource.plural), [source], now),
        ),
      ]),
    );
  }

  /** The stretches that no watch of what is billed by its life on this cluster covered. */
  unseen(): readonly UnseenStretch[] {
    const charged = this.#watched.filter(({ isCharged }) => isCharged);
    return charged.flatMap(({ timelines: { kind }, sources, scope }) =>
      partsOf(sources).flatMap((part) => this.#unseenOf(kind, part, scope)),
    );
  }

  #unseenOf(kind: string, part: WatchedSource, billed: MeterScope): readonly UnseenStretch[] {
    const { plural: source, namespace } = part.resource;
    const { watches } = this.#restored ?? {};
    const point = watches?.[watchName(kind, source)] ?? watches?.[kind];
    const before = namespace === undefined ? (point?.knownAt ?? 0) : knownAtIn(point, namespace);
    const knownAt = watches === undefined ? this.#lastWindowEnd : before;
    const own = namespace === undefined ? [billed] : this.#tenantClustersIn(namespace);
    return (part.health().unseen ?? []).map((stretch) => {
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
    const listed = partsOf(sources).filter((part) => this.#listed.has(part));
    const isComplete = sources.every((source) =>
      (source.members ?? [source]).some((part) => this.#listed.has(part)),
    );
    const point = isComplete ? pointOf(sources, listed, before, now) : before;
    return point === undefined ? [] : [[name, point]];
  }
}

/** The ids of the tenant clusters that a scope of this name stands for, where it does not stand for all. */
export function tenantClustersOf(
  name: string,
  current: readonly TenantCluster[],
): readonly string[] {
  const own = tenantClusterOf(name);
  if (own !== undefined) return [own];
  const [, namespace] = name.split('/');
  return namespace === undefined ? [] : clustersIn(current, namespace).map(({ id }) => id);
}

/** A resumed watch on which nothing has come yet knows what was known before. */
function pointOf(
  watched: readonly WatchedSource[],
  listed: readonly WatchedSource[],
  before: WatchPoint | undefined,
  now: number,
): WatchPoint {
  const freshAt = Math.min(now, least(listed.map((part) => part.health().freshAt)));
  const knownAt = Math.max(freshAt, before?.knownAt ?? 0);
  const resourceVersion = watched.length === 1 ? watched[0]?.resourceVersion() : undefined;
  return { knownAt, resourceVersion };
}

function progressWithoutJournal({
  lastWindowEnd,
  startedAt,
  windowMs,
}: ScopesOptions): ScopeProgress {
  const first =
    lastWindowEnd === undefined
      ? firstProgress(startedAt, windowMs)
      : { end: lastWindowEnd, sizeMs: windowMs };
  return { ...first, meteredFrom: first.end };
}
