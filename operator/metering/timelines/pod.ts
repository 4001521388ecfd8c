import { greatest, least } from '../../model/extremes.ts';
import type { Projected, RawObject, SourceHandler } from '../../kubernetes/source.ts';
import {
  effectiveRequests,
  leastRequests,
  type Requests,
  sameRequests,
} from './effective-requests.ts';
import { greaterOf, type GpuShares, gpuShares, sameShares } from './gpu-shares.ts';
import {
  type ObjectLabels,
  podLabels,
  sameLabels,
  sameOwnerLabels,
  withGpus,
} from './object-labels.ts';
import {
  conditionOf,
  identityOf,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, shareText } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { change, currentState, enter, type Timeline, widthOf } from './timeline.ts';
import type { TimelineReader } from './timeline-rules.ts';

/** The fields of a Pod that bear on billing. Times are milliseconds since the epoch. */
export interface PodView extends Projected {
  readonly labels: ObjectLabels;
  readonly requests: Requests;
  /** Absent until the scheduler has bound it. */
  readonly node?: string;
  readonly createdAt: number;
  /** When the scheduler bound it; absent where the API has no time. */
  readonly boundAt?: number;
  /** A container has started, by its status or by the pod's phase. */
  readonly started: boolean;
  /** First start of any container that the status still remembers, init containers included. */
  readonly startedAt?: number;
  /** Last finish of any container; absent while one runs or may run again. */
  readonly finishedAt?: number;
  /** Phase Succeeded or Failed: it no longer uses anything. */
  readonly terminal: boolean;
  /** Its shares of GPUs that no resource counts; absent without any. */
  readonly gpuShares?: GpuShares;
  /** It uses resource claims: its own, or those made for its extended resources. */
  readonly hasClaims: boolean;
}

/**
 * Reads the fields of a Pod that bear on billing; undefined for a malformed object
 * (docs/explanation/metering.md#pods).
 */
export function projectPod(object: RawObject, api: Api = API_OF_HOST): PodView | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const metadata = recordAt(object, 'metadata');
  const spec = recordAt(object, 'spec');
  const status = recordAt(object, 'status');
  const phase = textAt(status, 'phase');
  const terminal = phase === 'Succeeded' || phase === 'Failed';
  const times = lifetime(status, terminal);
  const node = textAt(spec, 'nodeName');
  return {
    ...identity,
    namespace: shareText(identity.namespace, api),
    labels: podLabels(metadata, api),
    requests: effectiveRequests(spec, status, api),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    terminal,
    hasClaims: 'resourceClaims' in spec || 'extendedResourceClaimStatus' in status,
    started: phase === 'Running' || times.startedAt !== undefined,
    ...times,
    ...optional('node', node === undefined ? undefined : shareText(node, api)),
    ...optional('boundAt', boundAt(status)),
    ...optional('gpuShares', gpuShares(metadata, spec)),
  };
}

function boundAt(status: RawObject): number | undefined {
  const scheduled = conditionOf(status, 'PodScheduled');
  if (scheduled?.['status'] !== 'True') return undefined;
  return timeAt(scheduled, 'lastTransitionTime');
}

const STATUS_LISTS = ['initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses'];

/**
 * Returns the first start and last finish of all containers. A restarted container has its previous
 * run in `lastState` and earlier runs nowhere, so the timeline keeps the first start that it saw.
 */
function lifetime(status: RawObject, terminal: boolean): Pick<PodView, 'startedAt' | 'finishedAt'> {
  const starts: number[] = [];
  const finishes: number[] = [];
  let mayRun = false;
  for (const container of STATUS_LISTS.flatMap((list) => listAt(status, list))) {
    const state = recordAt(container, 'state');
    const terminated = recordAt(state, 'terminated');
    const previous = recordAt(recordAt(container, 'lastState'), 'terminated');
    if (!('terminated' in state)) mayRun ||= !terminal;
    push(starts, timeAt(recordAt(state, 'running'), 'startedAt'));
    push(starts, timeAt(terminated, 'startedAt'));
    push(starts, timeAt(previous, 'startedAt'));
    push(finishes, timeAt(terminated, 'finishedAt'));
    push(finishes, timeAt(previous, 'finishedAt'));
  }
  return {
    ...optional('startedAt', earliest(starts)),
    ...optional('finishedAt', mayRun ? undefined : latest(finishes)),
  };
}

function push(times: number[], time: number | undefined): void {
  if (time !== undefined) times.push(time);
}

function earliest(times: readonly number[]): number | undefined {
  return times.length === 0 ? undefined : least(times);
}

function latest(times: readonly number[]): number | undefined {
  return times.length === 0 ? undefined : greatest(times);
}

function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

/** Whether the pod may use a GPU: by any extended resource, by a claim, or by annotations. */
function mayUseGpus(pod: PodView): boolean {
  return pod.hasClaims || pod.requests.extended.size > 0 || pod.gpuShares !== undefined;
}

/**
 * Passes on the pods that may use GPUs.
 * 1. A pod that once did is passed on until its end, because annotations come and go.
 * 2. Of a pod that starts to, the previous version is passed on first.
 */
export function forGpuPods(
  timelines: SourceHandler<PodView> & Pick<TimelineReader<PodState>, 'find'>,
): SourceHandler<PodView> {
  return {
    upserted: (next, previous, arrival) => {
      const known = timelines.find(next) !== undefined;
      if (!known && !mayUseGpus(next)) return;
      if (!known && previous !== undefined) timelines.upserted(previous, undefined, arrival);
      timelines.upserted(next, previous, arrival);
    },
    deleted: (last, arrival) => {
      if (mayUseGpus(last) || timelines.find(last) !== undefined) timelines.deleted(last, arrival);
    },
  };
}

/** A pod's billing state during a span. */
export interface PodState {
  /**
   * `bound`: on a node without a started container; billed only where podLifetime is `scheduled`
   * (docs/explanation/metering.md#pods).
   */
  readonly phase: 'bound' | 'running';
  readonly node: string;
  readonly labels: ObjectLabels;
  readonly requests: Requests;
  /** The largest shares since it was bound; absent without any. */
  readonly gpuShares?: GpuShares;
}

/**
 * Follows a pod from its binding through the first container start to the last container finish. A
 * `deletionTimestamp` does not count, because it lies in the future. A finished pod stays finished,
 * whatever its object reports later.
 */
export function followPod(timeline: Timeline<PodState>, pod: PodView, seen: Sighting): void {
  if (pod.node === undefined || timeline.finished) return;
  let current = currentState(timeline);
  if (current === undefined) {
    const since = pod.boundAt ?? (seen.first ? pod.createdAt : seen.until);
    current = stateOf(pod, pod.node, 'bound');
    enter(timeline, current, seen.trust(since));
  }
  if (current.phase === 'bound' && pod.started) {
    const { gpuShares: before } = current;
    current = stateOf(pod, pod.node, 'running', greaterOf(before, pod.gpuShares));
    enter(timeline, current, seen.trust(pod.startedAt ?? seen.until));
  }
  if (pod.terminal) {
    finishPod(timeline, pod, seen, seen.from);
    return;
  }
  const shares = greaterOf(current.gpuShares, pod.gpuShares);
  const next = stateOf(pod, pod.node, current.phase, shares);
  if (
    sameLabels(current.labels, next.labels) &&
    sameRequests(current.requests, next.requests) &&
    sameShares(current.gpuShares, shares)
  )
    return;
  change(timeline, next, seen, (before) => leastPod(before, next));
}

/**
 * Returns the smallest requests that a pod can have had during a change; undefined where its owner
 * is unknown then. Labels are the new ones, so that the namespace inside the tenant cluster does
 * not split its life. Shares of GPUs only grow.
 */
function leastPod(a: PodState, b: PodState): PodState | undefined {
  if (!sameOwnerLabels(a.labels, b.labels)) return undefined;
  const requests = leastRequests(a.requests, b.requests);
  if (requests === a.requests && sameLabels(a.labels, b.labels)) return a;
  const isNext = requests === b.requests && sameShares(a.gpuShares, b.gpuShares);
  return isNext ? b : { ...a, labels: b.labels, requests };
}

/** Returns the newest time in a version of a pod. */
export function podDatedAt({ createdAt, boundAt, startedAt, finishedAt }: PodView): number {
  return Math.max(createdAt, boundAt ?? 0, startedAt ?? 0, finishedAt ?? 0);
}

/** Ends the pod at its last container's finish, or at `latest` if no container has a time. */
export function finishPod(
  timeline: Timeline<PodState>,
  pod: PodView,
  seen: Sighting,
  latest: number,
): void {
  if (timeline.finished) return;
  const isDated = pod.finishedAt !== undefined;
  const finish = isDated ? seen.trust(pod.finishedAt) : latest;
  enter(timeline, undefined, Math.min(finish, latest), isDated ? 0 : widthOf(seen));
  timeline.finished = true;
}

function stateOf(
  pod: PodView,
  node: string,
  phase: PodState['phase'],
  shares = pod.gpuShares,
): PodState {
  const { requests } = pod;
  const holdsGpus = shares !== undefined || mayUseGpus(pod);
  const labels = holdsGpus ? withGpus(pod.labels) : pod.labels;
  return { phase, node, labels, requests, ...optional('gpuShares', shares) };
}
