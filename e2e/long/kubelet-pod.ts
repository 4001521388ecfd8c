import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { shippedOptions } from '../../config/testing/shipped-options.ts';
import { freePort } from '../control-plane/ports.ts';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { operatorKubeconfig } from '../local/service-account.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import type { ApiClient } from '../simulator/api-client.ts';
import { apiTime, type KubeObject } from '../simulator/objects.ts';

/** A kubelet waits so long before it starts a container again that has ended for the first time. */
const RESTART_MS = 10_000;

interface Container {
  readonly name: string;
  readonly image: string;
  readonly env: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: { readonly fieldRef: { readonly fieldPath: string } };
  }[];
  readonly envFrom: readonly {
    readonly configMapRef?: { readonly name: string };
    readonly secretRef?: { readonly name: string; readonly optional?: boolean };
  }[];
  readonly readinessProbe: {
    readonly httpGet: { readonly path: string; readonly port: string };
    readonly periodSeconds: number;
    readonly timeoutSeconds: number;
    readonly failureThreshold: number;
  };
}

/** What the stand-in reads of a pod; the API server has filled in the defaults. */
export type PodObject = KubeObject & {
  readonly spec: {
    readonly containers: readonly [Container];
    readonly terminationGracePeriodSeconds: number;
  };
};

/** Of 127.0.0.1, for what the container listens on as `http` and as `probes`. */
interface Ports {
  readonly http: number;
  readonly probes: number;
}

interface KubeletPodOptions {
  readonly cluster: TestCluster;
  readonly api: ApiClient;
  readonly directory: string;
  readonly pod: PodObject;
  /** Gives the pod its address. */
  readonly ordinal: number;
}

/**
 * Runs the program of the image as the one container of a pod: under the options of the image, with the environment that the
 * pod's manifest gives, as the pod's ServiceAccount. A program that ends starts again. Ready follows the readiness probe.
 */
export class KubeletPod {
  readonly #options: KubeletPodOptions;
  readonly #ports: Ports;
  readonly #stopping = new AbortController();
  readonly #ends: string[] = [];
  readonly #startTime = apiTime(Date.now());
  #process: ManagedProcess | undefined;
  #isReady = false;
  #failures = 0;
  #running: Promise<unknown> = Promise.resolve();

  private constructor(options: KubeletPodOptions, ports: Ports) {
    this.#options = options;
    this.#ports = ports;
  }

  static async start(options: KubeletPodOptions): Promise<KubeletPod> {
    const ports = { http: await freePort(), probes: await freePort() };
    const pod = new KubeletPod(options, ports);
    pod.#running = Promise.all([pod.#run(), pod.#probe()]);
    pod.#running.catch(() => undefined);
    return pod;
  }

  /** `http://127.0.0.1:<port>` of its API. */
  get address(): string {
    return `http://127.0.0.1:${this.#ports.http}`;
  }

  /** How its program ended each time, oldest first, such as `exit code 0`. */
  get ends(): readonly string[] {
    return this.#ends;
  }

  get isEnding(): boolean {
    return this.#stopping.signal.aborted;
  }

  log(): string {
    return readFileSync(this.#file('log'), 'utf8');
  }

  /** SIGTERM, and SIGKILL after the grace of the pod. Rejects with what the stand-in could not do before. */
  async end(): Promise<void> {
    this.#stopping.abort();
    await this.#process?.stop(this.#options.pod.spec.terminationGracePeriodSeconds * 1_000);
    await this.#running;
  }

  #file(name: string): string {
    return join(this.#options.directory, this.#options.pod.metadata.name, name);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const running = await this.#launch();
      this.#process = running;
      await this.#report();
      if (signal.aborted) await running.stop();
      this.#ends.push(await running.exited);
      this.#process = undefined;
      this.#isReady = false;
      if (signal.aborted) return;
      await this.#report();
      await delay(RESTART_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #launch(): Promise<ManagedProcess> {
    const { cluster, directory, pod } = this.#options;
    const places = {
      '/app': join(directory, 'app'),
      '/var/run/secrets': this.#file('secrets'),
      '/var/lib/vbilling-data': this.#file('data'),
      '/tmp': this.#file('tmp'),
    };
    for (const place of Object.values(places)) await mkdir(place, { recursive: true });
    const kubeconfig = this.#file('secrets/kubeconfig');
    await writeFile(kubeconfig, await operatorKubeconfig(cluster), { mode: 0o600 });
    return startProcess({
      name: pod.metadata.name,
      command: process.execPath,
      args: [...(await shippedOptions(places)), join(places['/app'], 'main.js')],
      env: {
        PATH: process.env['PATH'],
        ...(await this.#environment()),
        // All pods share the network and the files of this machine.
        LISTEN_ADDR: `127.0.0.1:${this.#ports.http}`,
        PROBE_ADDR: `127.0.0.1:${this.#ports.probes}`,
        DATA_DIR: places['/var/lib/vbilling-data'],
        TMPDIR: places['/tmp'],
        HOME: places['/var/run/secrets'],
        KUBECONFIG: kubeconfig,
      },
      logFile: this.#file('log'),
      pidFile: this.#file('pid'),
      // The readiness probe decides that.
      ready: async () => true,
    });
  }

  /** As the manifest gives it: what stands in the pod goes before ConfigMaps and Secrets. */
  async #environment(): Promise<Record<string, string>> {
    const { api, pod } = this.#options;
    const [container] = pod.spec.containers;
    const { name, namespace = '' } = pod.metadata;
    const found: Record<string, string> = {};
    for (const { configMapRef, secretRef } of container.envFrom) {
      const source = configMapRef ?? secretRef;
      const plural = configMapRef === undefined ? 'secrets' : 'configmaps';
      const object = await api.get(`/api/v1/namespaces/${namespace}/${plural}/${source?.name}`);
      for (const [key, value] of Object.entries(object?.['data'] ?? {})) {
        const text = String(value);
        found[key] =
          configMapRef === undefined ? Buffer.from(text, 'base64').toString('utf8') : text;
      }
    }
    const fields: Record<string, string> = {
      'metadata.name': name,
      'metadata.namespace': namespace,
    };
    for (const { name: key, value, valueFrom } of container.env) {
      found[key] = value ?? fields[valueFrom?.fieldRef.fieldPath ?? ''] ?? '';
    }
    return found;
  }

  async #probe(): Promise<void> {
    const { signal } = this.#stopping;
    const { readinessProbe: probe } = this.#options.pod.spec.containers[0];
    const url = `http://127.0.0.1:${this.#ports.probes}${probe.httpGet.path}`;
    while (!signal.aborted) {
      const timeout = AbortSignal.timeout(probe.timeoutSeconds * 1_000);
      const isOk = await fetch(url, { signal: timeout }).then(
        (answer) => answer.status >= 200 && answer.status < 400,
        () => false,
      );
      this.#failures = isOk ? 0 : this.#failures + 1;
      const isReady = isOk || (this.#isReady && this.#failures < probe.failureThreshold);
      if (isReady !== this.#isReady && this.#process !== undefined && !signal.aborted) {
        this.#isReady = isReady;
        await this.#report();
      }
      await delay(probe.periodSeconds * 1_000, undefined, { signal }).catch(() => undefined);
    }
  }

  async #report(): Promise<void> {
    const { api, pod, ordinal } = this.#options;
    const { name: podName, namespace } = pod.metadata;
    const [{ name, image }] = pod.spec.containers;
    const at = apiTime(Date.now());
    const condition = (type: string, isTrue: boolean) => ({
      type,
      status: isTrue ? 'True' : 'False',
      lastTransitionTime: at,
    });
    const podIP = `10.1.0.${ordinal + 1}`;
    const state =
      this.#process === undefined
        ? { waiting: { reason: 'CrashLoopBackOff' } }
        : { running: { startedAt: at } };
    await api.patch(`/api/v1/namespaces/${namespace}/pods/${podName}/status`, {
      status: {
        phase: 'Running',
        startTime: this.#startTime,
        podIP,
        podIPs: [{ ip: podIP }],
        conditions: [
          condition('PodScheduled', true),
          condition('ContainersReady', this.#isReady),
          condition('Ready', this.#isReady),
        ],
        containerStatuses: [
          {
            name,
            image,
            imageID: '',
            ready: this.#isReady,
            started: this.#process !== undefined,
            restartCount: this.#ends.length,
            state,
          },
        ],
      },
    });
  }
}
