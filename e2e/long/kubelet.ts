import { setTimeout as delay } from 'node:timers/promises';
import { ROLE_LABEL } from '../../operator/kubernetes/leader-label.ts';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import type { ApiClient } from '../simulator/api-client.ts';
import { KubeletPod, type PodObject } from './kubelet-pod.ts';

const PODS = `/api/v1/namespaces/${OPERATOR_NAMESPACE}/pods`;
const OWN_PODS = `${PODS}?labelSelector=app.kubernetes.io%2Fname%3Dmeterfeed`;
const POLL_MS = 200;

export interface KubeletOptions {
  readonly cluster: TestCluster;
  readonly api: ApiClient;
  /** Has the content of the image in `app`, and gets a directory for each pod. */
  readonly directory: string;
  /** Pods are bound to them in turn. */
  readonly nodes: readonly string[];
}

/** The pods of the operator in one answer of the API server. */
export interface Observed {
  /** Names of those that are Ready and that nobody has deleted. */
  readonly ready: readonly string[];
  /** Names of those that have the label of the leader. */
  readonly leaders: readonly string[];
}

/**
 * Stands in for the scheduler and for the kubelets of the operator's pods: binds each new pod to a node, runs the program of
 * the image in its name ({@link KubeletPod}), and removes a deleted pod once its program has ended.
 */
export class Kubelet {
  readonly #options: KubeletOptions;
  readonly #pods = new Map<string, KubeletPod>();
  readonly #observed: Observed[] = [];
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: KubeletOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
    // stop() rejects with it.
    this.#running.catch(() => undefined);
  }

  /** All pods that ran so far, by name, those that are gone too. */
  get pods(): ReadonlyMap<string, KubeletPod> {
    return this.#pods;
  }

  /** Every answer so far that differs from the one before it, oldest first. */
  get observed(): readonly Observed[] {
    return this.#observed;
  }

  /** Ends all programs and leaves the pods as they are. Rejects with the first error of the stand-in. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    try {
      await this.#running;
    } finally {
      await Promise.all([...this.#pods.values()].map((pod) => pod.end()));
    }
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const found = (await this.#options.api.list(OWN_PODS)) as readonly PodObject[];
      this.#observe(found);
      for (const pod of found) {
        const known = this.#pods.get(pod.metadata.name);
        if (pod.metadata.deletionTimestamp !== undefined) this.#remove(pod, known);
        else if (known === undefined) await this.#begin(pod);
      }
      await delay(POLL_MS);
    }
  }

  async #begin(pod: PodObject): Promise<void> {
    const { cluster, api, directory, nodes } = this.#options;
    const { name } = pod.metadata;
    const ordinal = this.#pods.size;
    const target = { apiVersion: 'v1', kind: 'Node', name: nodes[ordinal % nodes.length] };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target };
    await cluster.call('POST', `${PODS}/${name}/binding`, binding);
    this.#pods.set(name, await KubeletPod.start({ cluster, api, directory, pod, ordinal }));
  }

  #remove(pod: PodObject, known: KubeletPod | undefined): void {
    if (known?.isEnding === true) return;
    const { name } = pod.metadata;
    const removing = (known?.end() ?? Promise.resolve()).then(() =>
      this.#options.api.remove(`${PODS}/${name}`, 0),
    );
    // The test waits for the pod to be gone, and fails when it never is.
    removing.catch((error: unknown) => console.error(`kubelet: ${name}:`, error));
  }

  #observe(found: readonly PodObject[]): void {
    const names = (which: (pod: PodObject) => boolean): readonly string[] =>
      found
        .filter(which)
        .map(({ metadata }) => metadata.name)
        .toSorted();
    const now: Observed = {
      ready: names((pod) => pod.metadata.deletionTimestamp === undefined && isReady(pod)),
      leaders: names(({ metadata }) => metadata.labels?.[ROLE_LABEL] === 'leader'),
    };
    if (JSON.stringify(now) !== JSON.stringify(this.#observed.at(-1))) this.#observed.push(now);
  }
}

function isReady({ status }: PodObject): boolean {
  const conditions = (status?.['conditions'] ?? []) as readonly Record<string, string>[];
  return conditions.some(({ type, status: value }) => type === 'Ready' && value === 'True');
}
