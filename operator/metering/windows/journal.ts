import type { HostNamespace } from '../../discovery/views.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import type { Reversal } from '../meters/reversals.ts';
import type { MeterScope } from '../meters/meters.ts';
import { isRecord } from '../../model/is-record.ts';
import {
  decodeJson,
  decodeTimeline,
  encodeJson,
  encodeTimeline,
  PROJECTION_VERSION,
} from '../timelines/journal-text.ts';
import type {
  LoadBalancerView,
  VolumeClaimView,
  WorkloadView,
} from '../timelines/retained-objects.ts';
import type { NodeView } from '../timelines/node.ts';
import { rowOfVersion1, stateOfVersion1 } from '../timelines/older-journal.ts';
import type { Observation } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import type { ResourceClaimView } from '../timelines/resource-claim.ts';
import type { ResourceSliceView } from '../timelines/resource-slice.ts';
import type { TenantClusterSnapshot } from '../timelines/tenant-cluster-snapshot.ts';
import type { Observed, Tracked } from '../timelines/timeline-rules.ts';
import type { Timelines } from '../timelines/timelines.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { Api } from '../timelines/shared-values.ts';
import { hostTimelines } from './host-kinds.ts';
import type { ScopeProgress, WatchPoint } from './scope.ts';

/**
 * What a restart needs: timelines of live objects, the positions of watches, tenant clusters, and
 * the progress of every scope. One durable batch has it together with the window's events, so that
 * both are of the same moment (docs/explanation/metering.md#restarts). Records, all versioned JSON:
 * `journal/timeline/<kind>/<uid>`, `journal/tenant-clusters`, `journal/state`.
 */
export const TIMELINE_PREFIX = 'journal/timeline/';
export const TENANT_CLUSTERS_KEY = 'journal/tenant-clusters';
export const STATE_KEY = 'journal/state';

export const JOURNAL_VERSION = 2;

/** The part of the journal that is written with every window. */
export interface CollectorState {
  readonly scopes: Readonly<Partial<Record<MeterScope, ScopeProgress>>>;
  /** Progress of separate namespaces, by scope and namespace. */
  readonly separate?: Readonly<Record<string, ScopeProgress>>;
  /** Of usage that closed windows billed too much. */
  readonly reversals: readonly Reversal[];
  /** By kind of timeline: the resume point of its watch, and until when its view is confirmed. */
  readonly watches: Readonly<Record<string, WatchPoint>>;
  /** When discovery last succeeded. */
  readonly tenantClustersObservedAt: number;
}

/** Where a watch resumes. It fits the reflector's option of that name. */
export interface Resume<T> {
  readonly resourceVersion?: string;
  readonly objects: readonly T[];
  readonly knownAt: number;
}

/** What a start found in the journal. */
export interface RestoredJournal {
  /** Undefined at the first start. */
  readonly state: CollectorState | undefined;
  /** By kind; undefined if the journal has nothing of it. */
  readonly resume: {
    readonly pods?: Resume<PodView>;
    readonly nodes?: Resume<NodeView>;
    readonly resourceClaims?: Resume<ResourceClaimView>;
    readonly resourceSlices?: Resume<ResourceSliceView>;
    readonly volumes?: Resume<VolumeClaimView>;
    readonly loadBalancers?: Resume<LoadBalancerView>;
    readonly workloads?: ResumableWorkloads;
    readonly namespaces?: Resume<HostNamespace>;
  };
}

/** Workloads of two resources with a watch each. */
export interface ResumableWorkloads extends Resume<WorkloadView> {
  /** Resume point of each watch, by the plural of its resource. */
  readonly watches: Readonly<Partial<Record<string, WatchPoint>>>;
}

/** The journal's name for one of several watches of a kind. */
export function watchName(kind: string, plural: string): string {
  return `${kind}/${plural}`;
}

/** The kind in a watch name of the journal. */
export function kindOfWatch(name: string): string {
  return name.split('/', 1).join();
}

/** What restoring needs besides the ledger. */
export interface RestoreTools {
  readonly logger: Logger;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** Restores the journal's timelines into an empty observation. Call it before the watches begin. */
export async function restoreJournal(
  ledger: Pick<Ledger, 'record' | 'records'>,
  observation: Observation,
  { logger, clock }: RestoreTools,
): Promise<RestoredJournal> {
  const { state, tenantClusters } = await readJournalHead(ledger, logger);
  if (state !== undefined) {
    observation.tenantClusters.restore(tenantClusters, state.tenantClustersObservedAt);
  }
  const watches = state?.watches ?? {};
  const restore = createTimelineRestorer({
    ledger,
    prefix: TIMELINE_PREFIX,
    watches,
    logger,
    slice: new TimeSlice(clock),
  });
  const ends = new Map(
    hostTimelines(observation).map(({ timelines: { kind }, scope }) => [
      kind,
      state?.scopes[scope]?.end,
    ]),
  );
  const put = <T extends Observed, S>(timelines: Timelines<T, S>) =>
    restore(timelines, ends.get(timelines.kind));
  const pods = await put(observation.pods);
  const nodes = await put(observation.nodes);
  const gpuPods = await put(observation.gpuPods);
  const gpuNodes = await put(observation.gpuNodes);
  const resourceClaims = await put(observation.resourceClaims);
  const resourceSlices = await put(observation.resourceSlices);
  const volumes = await put(observation.volumes);
  const loadBalancers = await put(observation.loadBalancers);
  const workloads = await put(observation.workloads);
  const namespaces = await put(observation.namespaces);
  const resume = {
    // A resumed watch sends only differences, so every set of timelines that it feeds must be
    // complete.
    ...(pods === undefined || gpuPods === undefined ? {} : { pods }),
    ...(nodes === undefined || gpuNodes === undefined ? {} : { nodes }),
    resourceClaims,
    resourceSlices,
    volumes,
    loadBalancers,
    namespaces,
    ...(workloads && { workloads: { ...workloads, watches: watchesOf('workload', watches) } }),
  };
  return { state, resume };
}

/** The resume points of a kind with several watches. */
function watchesOf(
  kind: string,
  watches: CollectorState['watches'],
): Readonly<Record<string, WatchPoint>> {
  const prefix = watchName(kind, '');
  return Object.fromEntries(
    Object.entries(watches)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, point]) => [name.slice(prefix.length), point]),
  );
}

/** Restores the timelines of one kind and returns where its watch resumes. */
export function createTimelineRestorer(options: {
  readonly ledger: Pick<Ledger, 'records'>;
  /** Key prefix before the kind. */
  readonly prefix: string;
  readonly watches: CollectorState['watches'];
  readonly logger: Logger;
  /** Lets probes be answered while tens of thousands of objects are read. */
  readonly slice: TimeSlice;
}) {
  const { ledger, prefix, watches, logger, slice } = options;
  const api = {};
  return async <T extends Observed, S>(
    timelines: Timelines<T, S>,
    closedUntil: number | undefined,
  ): Promise<Resume<T> | undefined> => {
    const from = `${prefix}${timelines.kind}/`;
    const { read: restored, unreadable } = await readTimelines<T, S>(ledger, from, slice, api);
    const watch = watches[timelines.kind];
    if (unreadable.length > 0) logger.warn(unreadableText(timelines.kind, unreadable));
    // Continuing with some of them would bill the past of the others again, as late facts.
    if (closedUntil === undefined || watch === undefined || unreadable.length > 0) {
      timelines.unwritten.discard([...unreadable, ...restored.map(({ uid }) => uid)]);
      return undefined;
    }
    timelines.restore(restored, closedUntil);
    const live = restored.filter((timeline) => !timeline.gone);
    return { ...watch, objects: live.map((timeline) => timeline.view) };
  };
}

/** The timelines of one kind, and the uids of those that cannot be read. */
async function readTimelines<T extends Observed, S>(
  ledger: Pick<Ledger, 'records'>,
  prefix: string,
  slice: TimeSlice,
  api: Api,
): Promise<{ readonly read: readonly Tracked<T, S>[]; readonly unreadable: readonly string[] }> {
  const read: Tracked<T, S>[] = [];
  const unreadable: string[] = [];
  for await (const [key, text] of ledger.records(prefix)) {
    const timeline = decodeTimeline<T, S>(text, api);
    if (timeline === undefined) unreadable.push(key.slice(key.lastIndexOf('/') + 1));
    else read.push(timeline);
    if (slice.isOver) await slice.next();
  }
  return { read, unreadable };
}

/** The log line about unreadable timelines. */
function unreadableText(kind: string, unreadable: readonly string[]): string {
  const what = `${unreadable.length} records of ${kind}`;
  return `[controller] journal: cannot read ${what}: they are listed again`;
}

/** Drained changes of timelines, until someone puts them back. */
export interface DrainedChanges {
  readonly changes: readonly RecordChange[];
  /** The changes were not written: drains them again next time. */
  putBack(): void;
}

/** Drains timelines' changes since the last call. If one is unwritable, throws and drains none. */
export function drainChanges<T extends Observed, S>(
  prefix: string,
  timelines: Timelines<T, S>,
): DrainedChanges {
  const drained = timelines.unwritten.drain();
  const putBack = (): void => timelines.unwritten.putBack(drained);
  try {
    const keyOf = (uid: string): string => `${prefix}${timelines.kind}/${uid}`;
    const changes = [
      ...drained.removed.map((uid) => ({ key: keyOf(uid), value: undefined })),
      ...drained.changed.map((each) => ({ key: keyOf(each.uid), value: encodeTimeline(each) })),
    ];
    return { changes, putBack };
  } catch (error) {
    putBack();
    throw error;
  }
}

/**
 * Drains the changes of at most `limit` timelines of this cluster since the last call, one by one.
 * Reports a timeline that cannot be written and leaves it out of the journal, so that others are
 * not affected.
 */
export function* timelineChanges<T extends Observed, S>(
  timelines: Timelines<T, S>,
  onWritten: (uid: string, error?: unknown) => void,
  limit?: number,
): Generator<void, RecordChange[]> {
  const { changed, removed } = timelines.unwritten.drain(limit);
  const keyOf = (uid: string): string => `${TIMELINE_PREFIX}${timelines.kind}/${uid}`;
  for (const uid of removed) onWritten(uid);
  const changes: RecordChange[] = removed.map((uid) => ({ key: keyOf(uid), value: undefined }));
  for (const timeline of changed) {
    let value: string | undefined;
    try {
      value = encodeTimeline(timeline);
      onWritten(timeline.uid);
    } catch (error) {
      onWritten(timeline.uid, error);
    }
    changes.push({ key: keyOf(timeline.uid), value });
    yield;
  }
  return changes;
}

/** The part of a journal that has resume points. */
interface Resumable {
  readonly watches: Readonly<Record<string, WatchPoint>>;
}

export function encodeState(state: Resumable): string {
  return encodeJson({ v: JOURNAL_VERSION, projection: PROJECTION_VERSION, state });
}

/**
 * Decodes a text of {@link encodeState}, also of version 1; undefined for other texts and other
 * versions.
 */
export function decodeState(text: string | undefined): Resumable | undefined {
  const stored = decodeJson(text ?? '');
  if (!isRecord(stored)) return undefined;
  const { v, projection } = stored;
  const state = stateOfVersion(v, stored['state']);
  if (state === undefined) return undefined;
  if (projection === PROJECTION_VERSION) return state;
  const known = Object.entries(state.watches).map(([kind, { knownAt }]) => [kind, { knownAt }]);
  return { ...state, watches: Object.fromEntries(known) };
}

/** Returns a state in the present form; undefined for other versions. */
function stateOfVersion(version: unknown, state: unknown): Resumable | undefined {
  if (typeof state !== 'object' || state === null) return undefined;
  if (version === 1) return stateOfVersion1(state) as Resumable;
  return version === JOURNAL_VERSION ? (state as Resumable) : undefined;
}

/**
 * Reads the head of the journal. Without its tenant clusters nobody knows what closed windows have
 * billed, so the journal counts as missing.
 */
async function readJournalHead(
  ledger: Pick<Ledger, 'record'>,
  logger: Logger,
): Promise<{
  /** Undefined at the first start and if the journal is unusable; timelines are then ignored. */
  readonly state: CollectorState | undefined;
  readonly tenantClusters: TenantClusterSnapshot;
}> {
  const state = decodeState(await ledger.record(STATE_KEY)) as CollectorState | undefined;
  const clustersText = await ledger.record(TENANT_CLUSTERS_KEY);
  const head = { state, tenantClusters: [] };
  if (state === undefined || clustersText === undefined) return head;
  const tenantClusters = snapshotOf(decodeJson(clustersText));
  if (tenantClusters !== undefined) return { ...head, tenantClusters };
  const what = `${TENANT_CLUSTERS_KEY}: "${clustersText.slice(0, SHOWN_CHARACTERS)}"`;
  logger.warn(
    `[controller] journal: cannot read the tenant clusters: ${what}: everything is discovered again and billed from now on`,
  );
  return { ...head, state: undefined };
}

const SHOWN_CHARACTERS = 80;

/** Returns the tenant clusters of a record, also of version 1; undefined for other values. */
function snapshotOf(value: unknown): TenantClusterSnapshot | undefined {
  if (!isRecord(value)) return undefined;
  const { v, clusters } = value;
  if (!Array.isArray(clusters)) return undefined;
  if (v === 1) return clusters.map((row: object) => rowOfVersion1(row)) as TenantClusterSnapshot;
  return v === JOURNAL_VERSION ? (clusters as TenantClusterSnapshot) : undefined;
}
