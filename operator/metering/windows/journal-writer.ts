import type { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import type { Reversal } from '../meters/reversals.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Observed } from '../timelines/timeline-rules.ts';
import type { Timelines } from '../timelines/timelines.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { Gaps } from './gaps.ts';
import {
  type CollectorState,
  encodeState,
  kindOfWatch,
  type RestoredJournal,
  STATE_KEY,
  TENANT_CLUSTERS_KEY,
  timelineChanges,
} from './journal.ts';
import { hostTimelines } from './host-kinds.ts';
import type { ScopeState } from './scope.ts';
import type { Scopes } from './scopes.ts';
import { firstForSlice } from './one-slice.ts';
import { Standstill } from './standstill.ts';
import type { Quarantine } from './quarantine.ts';
import { type RestoredTenantApi, TenantJournal } from './tenant-journal.ts';
import { isTenant, type TenantScopeState } from './tenant-scopes.ts';
import { TenantClusterTexts } from './tenant-cluster-texts.ts';
import type { UnseenStretches } from './unseen-stretches.ts';

const PODS_PER_WRITE = 2_000;

/** Resume point of each watch, by name. */
type WatchPoints = ReturnType<Scopes['watchPoints']>;

/** Writes what a restart needs: with every window, and between windows. */
export class JournalWriter {
  readonly #options;
  readonly #tenants: TenantJournal;
  readonly #clusterTexts = new TenantClusterTexts();
  /** By kind, the uids of objects of this cluster that could not be written. */
  readonly #unwritable = new Map<string, Set<string>>();
  /** Drained changes that may not be written yet. */
  #unwritten: readonly RecordChange[] = [];
  /** False while the journal has a window that the ledger may not have. */
  #appended = true;
  #savedAt: number;
  /** When all tenant clusters were last written, monotonic milliseconds. */
  #allSavedAt: number;
  /** The journal has the pod watch's resume point, so its timelines must be of that moment. */
  #podsResumable: boolean;
  /** Version of the tenant clusters that were drained last. */
  #tenantClusters: number;

  constructor(options: {
    readonly observation: Observation;
    readonly restored: Pick<RestoredJournal, 'state'>;
    readonly restoredTenants?: readonly Pick<RestoredTenantApi, 'id'>[];
    readonly ledger: Pick<Ledger, 'writeRecords'>;
    readonly scopes: Scopes;
    /** Queue of what the watches of this cluster deliver. */
    readonly arrivals: QueuedArrivals;
    readonly gaps: Gaps;
    readonly unseen: Pick<UnseenStretches, 'note'>;
    readonly quarantine: Quarantine;
    /** Time that earlier windows billed too much and that is not given back yet. */
    readonly reversals: () => readonly Reversal[];
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
    const { observation, restored, restoredTenants = [], quarantine } = options;
    const known = restoredTenants.map(({ id }) => id);
    this.#tenants = new TenantJournal(quarantine, known);
    this.#savedAt = options.clock.monotonic();
    this.#allSavedAt = this.#savedAt;
    this.#podsResumable = observation.pods.kind in (restored.state?.watches ?? {});
    this.#tenantClusters = observation.tenantClusters.version;
  }

  /** Stores where the first start begins, so that a crash before the first window moves nothing. */
  async begin(): Promise<void> {
    if (this.#options.restored.state !== undefined) return;
    // The journal has no timeline yet, so no watch may claim to know the past.
    const state = this.#state({});
    await this.#options.ledger.writeRecords([{ key: STATE_KEY, value: encodeState(state) }]);
  }

  /**
   * Writes the pods of the first list in batches. Writing 100,000 pods with the first window would
   * need as much memory as everything else. A restart ignores them until the journal has the
   * watch's resume point.
   */
  async writePods(signal: AbortSignal): Promise<void> {
    if (this.#podsResumable) return;
    const { ledger, observation, clock } = this.#options;
    const slice = new TimeSlice(clock);
    while (!signal.aborted) {
      const batch = await slice.take(this.#changesOf(observation.pods, PODS_PER_WRITE));
      if (batch.length === 0) return;
      const outcome = await ledger.writeRecords(batch);
      if (outcome.kind === 'written') continue;
      this.#unwritten = [...this.#unwritten, ...batch];
      return;
    }
  }

  /** Returns false while a tenant cluster's journal cannot be written: its windows then wait. */
  canWrite(member: ScopeState | TenantScopeState): boolean {
    return !isTenant(member) || this.#tenants.canWrite(member);
  }

  /** The ledger has no records of this tenant cluster's journal any more. */
  forget(scope: TenantScopeState): void {
    this.#tenants.forget(scope);
  }

  /**
   * Returns the records to append with a window's events, object by object: those of this cluster
   * and of the tenant clusters that close with it. `points` are the resume points of this cluster's
   * watches. {@link save} writes nothing until {@link appended}, because the ledger may not have
   * the window yet.
   */
  *drainForAppend(
    members: readonly ScopeState[],
    points: WatchPoints,
  ): Generator<void, readonly RecordChange[]> {
    const records = yield* this.#drain(members.filter(isTenant), points);
    this.#appended = false;
    return records;
  }

  /** The ledger has the result of {@link drainForAppend}. */
  appended(): void {
    this.#appended = true;
    this.#unwritten = [];
    this.#savedAt = this.#options.clock.monotonic();
  }

  /**
   * Writes the journal between windows if the last write is `atLeastMs` old. A restart then knows
   * the time since the last window, and tenant clusters whose windows are not closed. Each tenant
   * cluster is written completely or not at all, so many of them fit into short time slices.
   */
  async save(atLeastMs: number): Promise<void> {
    const { clock, ledger, logger, scopes } = this.#options;
    const waiting = [...scopes.tenants.all];
    // A window writes the tenant clusters that close with it. The others wait for this.
    const last = waiting.length === 0 ? this.#savedAt : this.#allSavedAt;
    if (!this.#appended || clock.monotonic() - last < atLeastMs) return;
    this.#savedAt = clock.monotonic();
    this.#allSavedAt = this.#savedAt;
    const slice = new TimeSlice(clock);
    // Writes this cluster's part once. Changes during later slices wait for the next save.
    const still = new Standstill([], this.#options);
    try {
      await slice.take(this.#drain([], still.points));
    } finally {
      await still.release(slice);
    }
    for (;;) {
      const outcome = await ledger.writeRecords(this.#unwritten);
      if (outcome.kind !== 'written') {
        logger.warn(`[controller] cannot save the journal: ${outcome.message}`);
        return;
      }
      this.#unwritten = [];
      const scopes = waiting.splice(0, firstForSlice(waiting).length);
      if (scopes.length === 0) return;
      await slice.next();
      const changes = this.#tenants.drain(scopes, clock.now());
      this.#unwritten = [...changes, ...this.#changesOfGaps(scopes)];
    }
  }

  #state(points: WatchPoints): CollectorState {
    const { scopes, observation } = this.#options;
    return {
      scopes: Object.fromEntries(scopes.host.map(({ scope, progress }) => [scope.name, progress])),
      separate: scopes.separate(),
      reversals: this.#options.reversals(),
      watches: this.#resumable(points),
      tenantClustersObservedAt: observation.tenantClusters.observedAt,
    };
  }

  *#drain(
    tenants: Iterable<TenantScopeState>,
    points: WatchPoints,
  ): Generator<void, readonly RecordChange[]> {
    const { scopes, observation, clock } = this.#options;
    const changes = yield* this.#changesOfTimelines();
    yield* this.#clusterTexts.make(observation.tenantClusters.snapshot());
    const state = this.#state(points);
    this.#podsResumable ||= observation.pods.kind in state.watches;
    this.#unwritten = [
      ...this.#unwritten,
      ...changes,
      { key: STATE_KEY, value: encodeState(state) },
      ...this.#changesOfTenantClusters(),
      ...this.#tenants.drain(tenants, clock.now()),
      ...this.#tenants.begin(scopes.tenants.all),
      ...this.#changesOfGaps(tenants),
    ];
    return this.#unwritten;
  }

  /** A restart resumes after gaps that a watch passed over: they are written with its position. */
  #changesOfGaps(tenants: Iterable<TenantScopeState>): readonly RecordChange[] {
    this.#options.unseen.note(tenants);
    return this.#options.gaps.drain();
  }

  *#changesOfTimelines(): Generator<void, readonly RecordChange[]> {
    const changes: RecordChange[] = [];
    for (const { timelines } of hostTimelines(this.#options.observation)) {
      for (const change of yield* this.#changesOf(timelines)) changes.push(change);
    }
    return changes;
  }

  #changesOf<T extends Observed, S>(
    timelines: Timelines<T, S>,
    limit?: number,
  ): Generator<void, RecordChange[]> {
    const { kind } = timelines;
    const unwritable = this.#unwritable.get(kind) ?? new Set<string>();
    this.#unwritable.set(kind, unwritable);
    const onWritten = (uid: string, error?: unknown): void => {
      if (error === undefined) {
        unwritable.delete(uid);
        return;
      }
      unwritable.add(uid);
      this.#options.logger.error(`[controller] journal: cannot write ${kind} ${uid}`, { error });
    };
    return timelineChanges(timelines, onWritten, limit);
  }

  /** A restart has to list a kind if some of its objects are not in the journal. */
  #resumable(watches: CollectorState['watches']): CollectorState['watches'] {
    return Object.fromEntries(
      Object.entries(watches).map(([name, point]) => {
        const isComplete = (this.#unwritable.get(kindOfWatch(name))?.size ?? 0) === 0;
        return [name, isComplete ? point : { knownAt: point.knownAt }];
      }),
    );
  }

  #changesOfTenantClusters(): readonly RecordChange[] {
    const { tenantClusters } = this.#options.observation;
    if (tenantClusters.version === this.#tenantClusters) return [];
    this.#tenantClusters = tenantClusters.version;
    const value = this.#clusterTexts.of(tenantClusters.snapshot());
    return [{ key: TENANT_CLUSTERS_KEY, value }];
  }
}
