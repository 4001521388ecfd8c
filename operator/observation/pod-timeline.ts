import { type Requests, sameRequests } from './effective-requests.ts';
import { type ObjectLabels, sameLabels } from './object-labels.ts';
import type { PodView } from './pod.ts';
import type { Sighting } from './sighting.ts';
import { currentState, enter, type Timeline } from './timeline.ts';

/** A pod's billing state during a span. */
export interface PodState {
  /** `bound`: on a node, nothing started; billed only where podLifetime is `scheduled` (design 7). */
  readonly phase: 'bound' | 'running';
  readonly node: string;
  readonly labels: ObjectLabels;
  readonly requests: Requests;
}

/**
 * Follows a pod from binding over the first container start to the last container finish. A
 * `deletionTimestamp` plays no part: it lies in the future (design 7). Once finished, a pod holds
 * nothing, whatever its object says later.
 */
export function followPod(timeline: Timeline<PodState>, pod: PodView, seen: Sighting): void {
  if (pod.node === undefined || timeline.finished) return;
  let current = currentState(timeline);
  if (current === undefined) {
    const since = pod.boundAt ?? (seen.first ? pod.createdAt : seen.at);
    current = stateOf(pod, pod.node, 'bound');
    enter(timeline, current, seen.believe(since));
  }
  if (current.phase === 'bound' && pod.started) {
    current = stateOf(pod, pod.node, 'running');
    enter(timeline, current, seen.believe(pod.startedAt ?? seen.at));
  }
  if (pod.terminal) {
    finishPod(timeline, pod, seen, seen.at);
    return;
  }
  if (sameLabels(current.labels, pod.labels) && sameRequests(current.requests, pod.requests))
    return;
  enter(timeline, stateOf(pod, pod.node, current.phase), seen.at);
}

/** The pod holds nothing any more: its time ends with its last container, and at `latest` if none says when. */
export function finishPod(
  timeline: Timeline<PodState>,
  pod: PodView,
  seen: Sighting,
  latest: number,
): void {
  if (timeline.finished) return;
  const finish = pod.finishedAt === undefined ? latest : seen.believe(pod.finishedAt);
  enter(timeline, undefined, Math.min(finish, latest));
  timeline.finished = true;
}

function stateOf(pod: PodView, node: string, phase: PodState['phase']): PodState {
  return { phase, node, labels: pod.labels, requests: pod.requests };
}
