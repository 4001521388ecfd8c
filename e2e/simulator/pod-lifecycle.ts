import type { ApiClient } from './api-client.ts';
import { apiTime, type KubeObject, objectPath } from './objects.ts';

/** What the simulated kubelet writes into a pod's status; times in milliseconds since the epoch. */

/** The pod is bound and the kubelet has taken it; nothing runs yet. */
export async function acceptPod(api: ApiClient, pod: KubeObject, at: number): Promise<void> {
  await patchStatus(api, pod, {
    phase: 'Pending',
    qosClass: 'Burstable',
    startTime: apiTime(at),
    conditions: [condition('PodScheduled', 'True', at), condition('Ready', 'False', at)],
  });
}

/** The init container runs: the pod is still Pending, and it already uses what it asked for. */
export async function runInitContainer(api: ApiClient, pod: KubeObject, at: number): Promise<void> {
  const state = { running: { startedAt: apiTime(at) } };
  await patchStatus(api, pod, {
    phase: 'Pending',
    initContainerStatuses: [containerStatus('prepare', state)],
  });
}

export async function runContainers(
  api: ApiClient,
  pod: KubeObject,
  at: number,
  initStartedAt?: number,
): Promise<void> {
  const state = { running: { startedAt: apiTime(at) } };
  await patchStatus(api, pod, {
    phase: 'Running',
    conditions: [condition('PodScheduled', 'True', at), condition('Ready', 'True', at)],
    ...(initStartedAt === undefined ? {} : finishedInit(initStartedAt, at)),
    containerStatuses: [containerStatus('main', state)],
  });
}

/** The last container has ended. False when the pod is gone already. */
export function finishContainers(
  api: ApiClient,
  pod: KubeObject,
  startedAt: string,
  at: number,
): Promise<boolean> {
  const terminated = {
    exitCode: 0,
    reason: 'Completed',
    startedAt,
    finishedAt: apiTime(at),
  };
  return patchStatus(api, pod, {
    phase: 'Succeeded',
    conditions: [condition('PodScheduled', 'True', at), condition('Ready', 'False', at)],
    containerStatuses: [containerStatus('main', { terminated })],
  });
}

/** Times of a pod's containers as its status tells them, RFC 3339. */
export interface ContainerTimes {
  /** Of the main container; undefined before it runs. */
  readonly mainStartedAt?: string;
  /** Of the first container that ran, init containers included. */
  readonly firstStartedAt?: string;
  /** Of the main container; undefined before it ended. */
  readonly finishedAt?: string;
}

export function containerTimes(pod: KubeObject): ContainerTimes {
  const main = times(pod.status?.['containerStatuses']);
  const init = times(pod.status?.['initContainerStatuses']);
  const first = init.startedAt ?? main.startedAt;
  return {
    mainStartedAt: main.startedAt,
    firstStartedAt: first,
    finishedAt: main.finishedAt,
  };
}

interface Times {
  readonly startedAt?: string;
  readonly finishedAt?: string;
}

function times(statuses: unknown): Times {
  const [status] = (statuses ?? []) as readonly { readonly state?: Record<string, Times> }[];
  return status?.state?.['terminated'] ?? status?.state?.['running'] ?? {};
}

function patchStatus(
  api: ApiClient,
  pod: KubeObject,
  status: Record<string, unknown>,
): Promise<boolean> {
  return api.patch(`${objectPath(pod)}/status`, { status });
}

function finishedInit(startedAt: number, finishedAt: number): Record<string, unknown> {
  const terminated = {
    exitCode: 0,
    reason: 'Completed',
    startedAt: apiTime(startedAt),
    finishedAt: apiTime(finishedAt),
  };
  return { initContainerStatuses: [containerStatus('prepare', { terminated })] };
}

function containerStatus(name: string, state: Record<string, unknown>): Record<string, unknown> {
  const running = 'running' in state;
  return {
    name,
    image: 'simulated/work',
    imageID: '',
    restartCount: 0,
    ready: running && name === 'main',
    started: running,
    state,
  };
}

function condition(type: string, status: string, at: number): Record<string, unknown> {
  return { type, status, lastTransitionTime: apiTime(at) };
}
