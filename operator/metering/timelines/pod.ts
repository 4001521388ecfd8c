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
import { conditionOf, listAt, recordAt, textAt, timeAt } from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, shareText } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { change, currentState, enter, type Timeline, widthOf } from './timeline.ts';

/** What of a pod bears on billing. Times are milliseconds since the epoch. */
export interface PodView extends Projected {
  readonly labels: ObjectLabels;
  readonly requests: Requests;
  /** Absent until the scheduler has bound it. */
  readonly node?: string;
  readonly createdAt: number;
  /** When the scheduler bound it; absent where the API does not say. */
  readonly boundAt?: number;
  /** A container has started: one says so, or the phase does. */
  readonly started: boolean;
  /** First start of any container that the status still remembers, init containers included. */
  readonly startedAt?: number;
  /** Last finish of any container; absent while one runs or may run again. */
  readonly finishedAt?: number;
  /** Phase Succeeded or Failed: it holds nothing any more. */
  readonly terminal: boolean;
  /** What it holds of GPUs that no resource counts; absent where it says nothing of the kind. */
  readonly gpuShares?: GpuShares;
  /** It uses resource claims, named by itself or made for its extended resources. */
  readonly hasClaims: boolean;
}

/** Takes out of a pod what bears on billing (docs/explanation/metering.md#pods). */
export function projectPod(object: RawObject, api: Api = API_OF_HOST): PodView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const spec = recordAt(object, 'spec');
  const status = recordAt(object, 'status');
  const phase = textAt(status, 'phase');
  const terminal = phase === 'Succeeded' || phase === 'Failed';
  const times = lifetime(status, terminal);
  const node = textAt(spec, 'nodeName');
  return {
    uid,
    name,
    namespace: shareText(textAt(metadata, 'namespace') ?? '', api),
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
 * First start and last finish over all containers. A container that was restarted remembers its
 * previous run in `lastState`; earlier ones are forgotten, so the timeline keeps the first start seen.
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

/**
 * It may hold a GPU: by an extended resource, whichever settings make GPUs of, by a claim, or by what
 * annotations say.
 */
function mayHoldGpus(pod: PodView): boolean {
  return pod.hasClaims || pod.requests.extended.size > 0 || pod.gpuShares !== undefined;
}

/**
 * Tells timelines of the pods that may hold GPUs only. One that did is told of to its end, since
 * annotations come and go; of one that begins to later, what it was before is told first.
 */
export function forGpuPods(
  timelines: SourceHandler<PodView> & { has(pod: PodView): boolean },
): SourceHandler<PodView> {
  return {
    upserted: (next, previous, arrival) => {
      const known = timelines.has(next);
      if (!known && !mayHoldGpus(next)) return;
      if (!known && previous !== undefined) timelines.upserted(previous, undefined, arrival);
      timelines.upserted(next, previous, arrival);
    },
    deleted: (last, arrival) => {
      if (timelines.has(last) || mayHoldGpus(last)) timelines.deleted(last, arrival);
    },
  };
}

/** A pod's billing state during a span. */
export interface PodState {
  /**
   * `bound`: on a node, nothing started; billed only where podLifetime is `scheduled`
   * (docs/explanation/metering.md#pods).
   */
  readonly phase: 'bound' | 'running';
  readonly node: string;
  readonly labels: ObjectLabels;
  readonly requests: Requests;
  /** The most that it has said since it was bound; absent where it said nothing of the kind. */
  readonly gpuShares?: GpuShares;
}

/**
 * Follows a pod from binding over the first container start to the last container finish. A
 * `deletionTimestamp` plays no part: it lies in the future. Once finished, a pod holds
 * nothing, whatever its object says later.
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
 * What a pod holds at the least while that changes; whose it was must be known. The namespace inside of the
 * tenant cluster is the new one, so that its life stays whole. Shares of GPUs only grow.
 */
function leastPod(a: PodState, b: PodState): PodState | undefined {
  if (!sameOwnerLabels(a.labels, b.labels)) return undefined;
  const requests = leastRequests(a.requests, b.requests);
  if (requests === a.requests && sameLabels(a.labels, b.labels)) return a;
  const isNext = requests === b.requests && sameShares(a.gpuShares, b.gpuShares);
  return isNext ? b : { ...a, labels: b.labels, requests };
}

/** The newest time that a version of a pod says. */
export function podDatedAt({ createdAt, boundAt, startedAt, finishedAt }: PodView): number {
  return Math.max(createdAt, boundAt ?? 0, startedAt ?? 0, finishedAt ?? 0);
}

/**
 * The pod holds nothing any more: its time ends with its last container, and at `latest` if none says
 * when.
 */
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
  const holdsGpus = shares !== undefined || mayHoldGpus(pod);
  const labels = holdsGpus ? withGpus(pod.labels) : pod.labels;
  return { phase, node, labels, requests, ...optional('gpuShares', shares) };
}
