import type { LimitFunction } from 'p-limit';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { pause } from '../telemetry/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { SourceHealth } from '../kubernetes/source.ts';
import { errorText } from '../model/error-text.ts';
import { least } from '../model/extremes.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import type { TenantObservation } from '../metering/timelines/observation.ts';
import type { PodView } from '../metering/timelines/pod.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import type { Inside } from './inside.ts';
import type { AnyKindWatch } from './kind-watch.ts';
import { ApiLimiter, type FirstLists, type TenantLimits } from './limits.ts';
import type { SharedMemory } from './memory.ts';
import { privateNodesIn } from './private-nodes.ts';
import type { ForeignReader } from './reading/foreign-reader.ts';
import { readSeparate } from './reading/read-in-worker.ts';
import { Suspension } from './suspension.ts';
import type { FailedTenantApi, Reachability } from './tenant-api.ts';
import {
  failureOf,
  statesIn,
  type TenantResume,
  TenantWatches,
  WatchConnection,
} from './tenant-watches.ts';
import type { WatchPoint } from '../metering/windows/scope.ts';

/** After this time, slower first lists continue without blocking those of others. */
const START_MS = 3_000;
const POLL_MS = 50;

/** Kinds of objects whose meaning depends on the host cluster and on settings. */
type RefreshedKind = 'nodes' | 'volumes' | 'loadBalancers';

/** A watch, as far as the collector needs it. */
type WatchedApi = { readonly resource: { readonly plural: string }; health(): SourceHealth };

/**
 * One tenant cluster's API: its objects while it is reachable, and their unbilled usage after its
 * end. Implements the collector's `TenantObjects`.
 */
export class TenantUnit {
  readonly #options;
  readonly #limiter: ApiLimiter;
  readonly #watches: TenantWatches;
  readonly #closing = new AbortController();
  #reachability: Reachability | undefined;
  #connection: WatchConnection | undefined;
  #hasPrivateNodes: boolean;
  /** End of the API's objects, and until when they were known; wall clock, milliseconds. */
  #ended: { readonly at: number; readonly knownUntil: number } | undefined;
  readonly #suspension: Suspension;
  /** Kinds to follow again after the suspension. */
  readonly #stale = new Set<RefreshedKind>();
  /** Kinds being followed again, and whether another pass must follow. */
  readonly #refreshing = new Map<RefreshedKind, 'once' | 'again'>();
  #startedAt: number | undefined;
  #starting: Promise<void> | undefined;

  constructor(
    options: Pick<Inside, 'observation' | 'privateNodes'> & {
      readonly machines: Pick<Inside['machines'], 'lives' | 'release'>;
      readonly id: string;
      /** The watch of the host's nodes. While it fails, the private nodes are unknown. */
      readonly hostNodes: WatchedApi;
      readonly hasPrivateNodes: boolean;
      readonly resume: Partial<TenantResume>;
      readonly limits: TenantLimits;
      // The next four are shared with all other tenant clusters.
      readonly firstLists: FirstLists;
      readonly memory: SharedMemory;
      /** Limits first lists under way at the same time. */
      readonly limit: LimitFunction;
      readonly reader: Pick<ForeignReader, 'of'>;
      readonly clock: Clock;
      readonly random: () => number;
      readonly logger: Logger;
    },
  ) {
    const { clock } = options;
    this.#options = options;
    this.#suspension = new Suspension(clock);
    this.#hasPrivateNodes = options.hasPrivateNodes;
    this.#limiter = new ApiLimiter({
      ...options,
      now: () => clock.monotonic(),
      onExceeded: (reason) => this.#suspend(reason),
      isListed: () => this.listed,
      states: () => statesIn(options.observation),
    });
    this.#watches = new TenantWatches({
      ...options,
      onNode: { upserted: (node) => this.#seeNode(node), deleted: () => undefined },
      limiter: this.#limiter,
    });
  }

  get id(): string {
    return this.#options.id;
  }

  get observation(): TenantObservation {
    return this.#options.observation;
  }

  get sources(): readonly WatchedApi[] {
    return this.#isExternal ? this.#needed : [this.#options.hostNodes, ...this.#needed];
  }

  get listed(): boolean {
    return this.#needed.every(({ listed }) => listed);
  }

  /**
   * Returns whether it has, or is known to have, private nodes. Its volumes stay while all nodes
   * are gone for a time.
   */
  get hasPrivateNodes(): boolean {
    return this.#hasPrivateNodes || this.#isExternal || this.#cluster?.nodeMode === 'private';
  }

  get ended(): { readonly at: number; readonly knownUntil: number } | undefined {
    return this.#ended;
  }

  get metricsApi(): Pick<Connection, 'bytes'> | undefined {
    const reachability = this.#reachability;
    if (reachability?.kind !== 'reachable' || !this.#hasPrivateNodes) return undefined;
    const { privateNodeBilling, cpuMemoryBasis } = reachability.cluster.metering;
    const bySamples = privateNodeBilling === 'usage' && cpuMemoryBasis !== 'requests';
    return bySamples ? this.#limiter.counted(reachability.connection) : undefined;
  }

  retain(now: number): ReturnType<TenantWatches['retain']> {
    return this.#watches.retain(now);
  }

  watchPoints(now: number): Readonly<Record<string, WatchPoint>> {
    return Object.fromEntries(
      this.#watches.all.flatMap((watch) => {
        const point = watch.point(now);
        return point === undefined ? [] : [point];
      }),
    );
  }

  findPod(namespace: string, name: string): PodView | undefined {
    return this.#watches.pods.find(namespace, name);
  }

  /** Returns why the API cannot be read despite a connection, or undefined. */
  failure(): FailedTenantApi | undefined {
    const { id, clock } = this.#options;
    if (this.#ended !== undefined || this.#reachability?.kind !== 'reachable') return undefined;
    const reported =
      this.#suspension.current ?? failureOf(this.#needed, clock.now(), this.#startedAt);
    return reported && { tenantCluster: id, ...reported };
  }

  privateNodeCount(): number {
    return privateNodesIn(this.observation);
  }

  /** Applies a created, changed or deleted node of the host cluster with this name. */
  hostNodeChanged(name: string): void {
    if (this.#watches.nodes.find('', name) !== undefined) this.refresh('nodes');
  }

  /** Applies a change of the provider's information about its nodes, or of whether that counts. */
  providerChanged(): void {
    this.#watches.release();
    try {
      this.#watches.hiddenNodes.review(this.#options.clock.now());
    } catch (error) {
      this.#suspend(`nodes cannot be followed: ${errorText(error)}`);
    }
    this.refresh('nodes');
  }

  /** Follows all objects of a kind again, in time slices: their meaning changed elsewhere. */
  refresh(kind: RefreshedKind): void {
    this.#stale.delete(kind);
    const isUnderWay = this.#refreshing.has(kind);
    this.#refreshing.set(kind, isUnderWay ? 'again' : 'once');
    if (!isUnderWay) void this.#followAgain(kind);
  }

  async #followAgain(kind: RefreshedKind): Promise<void> {
    const { clock } = this.#options;
    const timeSlice = new TimeSlice(clock);
    try {
      do {
        this.#refreshing.set(kind, 'once');
        const steps = this.observation[kind].refreshing(() => clock.now());
        do {
          if (timeSlice.isOver) await timeSlice.next();
          if (this.#closing.signal.aborted) return;
          this.#watches.release();
        } while (steps.next().done !== true);
      } while (this.#refreshing.get(kind) === 'again');
    } catch (error) {
      this.#stale.add(kind);
      this.#suspend(`${kind} cannot be followed: ${errorText(error)}`);
    } finally {
      this.#refreshing.delete(kind);
    }
  }

  take(reachability: Reachability): void {
    if (this.#ended !== undefined) return;
    this.#reachability = reachability;
    this.#review();
  }

  /** Stops everything; resolves when nothing runs any more. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#stopAll('stopped');
    await Promise.all([this.#starting, ...this.#watches.all.map((watch) => watch.idle())]);
    this.#limiter.close();
  }

  get #cluster(): TenantCluster | undefined {
    const reachability = this.#reachability;
    return reachability?.kind === 'gone' ? undefined : reachability?.cluster;
  }

  get #isExternal(): boolean {
    return this.#cluster?.source === 'external';
  }

  get #needed(): readonly AnyKindWatch[] {
    return this.#watches.needed(this.hasPrivateNodes, this.#cluster);
  }

  #seeNode(node: NodeView): void {
    if (this.#hasPrivateNodes || this.#options.privateNodes.foreignSince(node) !== undefined)
      return;
    this.#hasPrivateNodes = true;
    // The other watches start after this list or event has been applied.
    queueMicrotask(() => this.#review());
  }

  #stopAll(reason: string): void {
    for (const watch of this.#watches.all) watch.stop(reason);
  }

  #suspend(reason: string): void {
    const { id, logger } = this.#options;
    if (this.#suspension.current !== undefined) return;
    const ms = this.#suspension.begin(reason);
    const minutes = Math.round(ms / 60_000);
    logger.warn(
      `[metrics] tenant cluster ${id}: its API is not read for ${minutes} minutes: ${reason}`,
    );
    // The reflector that reports it is still working.
    queueMicrotask(() => this.#review());
    void this.#suspension.over(ms, this.#closing.signal).then((waited) => {
      if (!waited) return;
      for (const kind of this.#stale) this.refresh(kind);
      this.#review();
    });
  }

  /** Starts and stops watches by the current state of the tenant cluster. */
  #review(): void {
    const reachability = this.#reachability;
    if (this.#ended !== undefined || this.#closing.signal.aborted) return;
    if (reachability === undefined) return;
    if (reachability.kind === 'gone') {
      this.#end();
      return;
    }
    const reason =
      reachability.kind === 'unreachable' ? reachability.reason : this.#suspension.current?.reason;
    if (reason !== undefined) {
      this.#stopAll(reason);
      return;
    }
    const wanted = this.#needed;
    for (const watch of this.#watches.all) if (!wanted.includes(watch)) watch.stop('not needed');
    if (this.#starting !== undefined) return;
    this.#starting = this.#start().finally(() => {
      this.#starting = undefined;
      if (this.#toStart().length > 0) this.#review();
    });
  }

  #toStart(): readonly AnyKindWatch[] {
    const reachability = this.#reachability;
    if (reachability?.kind !== 'reachable' || this.#suspension.current !== undefined) return [];
    if (this.#closing.signal.aborted) return [];
    const connection = this.#connectionTo(reachability.connection);
    return this.#needed.filter((watch) => watch.connection !== connection.for(watch));
  }

  #connectionTo(connection: Connection): WatchConnection {
    const known = this.#connection;
    if (known?.of === connection) return known;
    const { id, reader } = this.#options;
    const refuse = (reason: string): void => this.#limiter.refuse(reason);
    const separate = readSeparate(connection, reader.of(id), refuse);
    const made = new WatchConnection(connection, this.#limiter.counted(separate));
    this.#connection = made;
    return made;
  }

  /** Starts missing watches, with a place among the starts for at most {@link START_MS}. */
  async #start(): Promise<void> {
    const { clock, limit } = this.#options;
    if (this.#toStart().length === 0) return;
    await limit(async () => {
      const begun = this.#toStart();
      this.#startedAt ??= clock.now();
      const connection = this.#connection;
      if (connection !== undefined) for (const watch of begun) watch.start(connection.for(watch));
      for (let waited = 0; waited < START_MS; waited += POLL_MS) {
        if (begun.every((watch) => watch.health().state !== 'starting')) return;
        if (!(await pause(clock, POLL_MS, this.#closing.signal))) return;
      }
    });
  }

  #end(): void {
    const at = this.#options.clock.now();
    this.#watches.hiddenNodes.close();
    const known = this.#watches.all.filter((watch) => watch.point(at) !== undefined);
    const until = known.map((watch) => watch.end());
    this.#stopAll('gone');
    this.#ended = { at, knownUntil: until.length === 0 ? at : least(until) };
  }
}
