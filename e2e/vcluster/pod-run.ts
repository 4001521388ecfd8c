import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { apiTime, type KubeObject } from '../simulator/objects.ts';

/** On a pod: after how many seconds its containers end by themselves. Without it they run until they are stopped. */
export const RUNS_SECONDS = 'example.com/runs-seconds';
/** On a pod: after how many seconds its containers obey a stop; by default they use up their grace. */
export const STOPS_SECONDS = 'example.com/stops-seconds';

const INIT_MS = 2_000;

/** What a container runtime starts and stops for a pod of a vCluster's own control plane. */
export interface Work {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** One pod on its node, from its first container's start to its last one's end. Milliseconds since the epoch. */
export class PodRun {
  /** Whole seconds, as kubelets write them; undefined before the first start. */
  from: number | undefined;
  /** Whole seconds where the status tells it; the arrival of its removal where it vanished with no word. */
  to: number | undefined;
  /** It was removed before its status told an end. */
  vanished = false;
  pod: KubeObject;
  readonly #api: ApiClient;
  readonly #work: Work | undefined;
  readonly #terminating = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();

  constructor(api: ApiClient, pod: KubeObject, work: Work | undefined) {
    this.#api = api;
    this.#work = work;
    this.pod = pod;
  }

  /** Tells it of a newer version. */
  update(pod: KubeObject): void {
    this.pod = pod;
    if (pod.metadata.deletionTimestamp !== undefined) this.#terminating.resolve();
  }

  /** Tells it that the object is no longer there: without a grace, or at the end of one. */
  vanish(at: number): void {
    if (this.from !== undefined && this.to === undefined) {
      this.to = at;
      this.vanished = true;
    }
    this.#terminating.resolve();
    this.#gone.resolve();
  }

  async run(): Promise<void> {
    const { containers, initContainers } = containersOf(this.pod);
    this.from = wholeSecond();
    const initFrom = this.from;
    if (initContainers.length > 0) {
      const state = { running: { startedAt: apiTime(initFrom) } };
      await this.#write('Pending', { initContainerStatuses: statuses(initContainers, state) });
      await Promise.race([delay(INIT_MS), this.#gone.promise]);
    }
    await this.#work?.start();
    const mainFrom = wholeSecond();
    const init =
      initContainers.length === 0
        ? {}
        : { initContainerStatuses: statuses(initContainers, ended(initFrom, mainFrom)) };
    const running = { running: { startedAt: apiTime(mainFrom) } };
    await this.#write('Running', { ...init, containerStatuses: statuses(containers, running) });
    await this.#containersEnd();
    await this.#work?.stop();
    const to = wholeSecond();
    const containerStatuses = statuses(containers, ended(mainFrom, to));
    if (await this.#write('Succeeded', { ...init, containerStatuses })) this.to ??= to;
    await this.#terminating.promise;
    await this.#api.remove(pathOf(this.pod), 0);
  }

  async #containersEnd(): Promise<void> {
    const runs = this.#seconds(RUNS_SECONDS);
    const stopped = this.#terminating.promise;
    await (runs === undefined ? stopped : Promise.race([stopped, delay(runs * 1000)]));
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = this.pod.metadata;
    // A vCluster obeys at once.
    if (deletionTimestamp === undefined || this.#work !== undefined) return;
    const grace = Math.min(
      this.#seconds(STOPS_SECONDS) ?? Number.POSITIVE_INFINITY,
      deletionGracePeriodSeconds,
    );
    await Promise.race([this.#gone.promise, delay(grace * 1000)]);
  }

  #seconds(annotation: string): number | undefined {
    const value = this.pod.metadata.annotations?.[annotation];
    return value === undefined ? undefined : Number(value);
  }

  /** False when the pod is gone already. */
  #write(phase: string, containers: Record<string, unknown>): Promise<boolean> {
    const at = apiTime(wholeSecond());
    const condition = (type: string, status: boolean): object => ({
      type,
      status: status ? 'True' : 'False',
      lastTransitionTime: at,
    });
    const conditions = [
      condition('PodScheduled', true),
      condition('Initialized', phase !== 'Pending'),
      condition('ContainersReady', phase === 'Running'),
      condition('Ready', phase === 'Running'),
    ];
    const status = { phase, conditions, hostIP: '127.0.0.1', podIP: '10.1.0.9', ...containers };
    const startTime = apiTime(this.from ?? wholeSecond());
    return this.#api.patch(`${pathOf(this.pod)}/status`, { status: { ...status, startTime } });
  }
}

interface Container {
  readonly name: string;
  readonly image: string;
}

function containersOf({ spec }: KubeObject): {
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
} {
  return {
    containers: (spec?.['containers'] ?? []) as readonly Container[],
    initContainers: (spec?.['initContainers'] ?? []) as readonly Container[],
  };
}

function statuses(containers: readonly Container[], state: object): readonly object[] {
  const running = 'running' in state;
  return containers.map(({ name, image }) => ({
    name,
    image,
    imageID: '',
    restartCount: 0,
    ready: running,
    started: running,
    state,
  }));
}

function ended(from: number, to: number): object {
  const times = { startedAt: apiTime(from), finishedAt: apiTime(to) };
  return { terminated: { exitCode: 0, reason: 'Completed', ...times } };
}

function pathOf({ metadata }: KubeObject): string {
  return `/api/v1/namespaces/${metadata.namespace ?? ''}/pods/${metadata.name}`;
}

/** Now, as a kubelet writes it. */
function wholeSecond(): number {
  return Math.floor(Date.now() / 1000) * 1000;
}
