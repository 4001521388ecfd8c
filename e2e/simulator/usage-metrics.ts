import type { ApiClient } from './api-client.ts';
import { NODES } from './nodes.ts';
import { apiTime, type KubeObject, objectPath } from './objects.ts';
import { containerTimes } from './pod-lifecycle.ts';

/** metrics-server leaves out containers that it has not seen for long enough. */
const YOUNGEST_MS = 10_000;
const WINDOW = '10s';
const WAVE_MS = 120_000;

/**
 * Writes PodMetrics for every running pod and NodeMetrics for every node, moving with time, and removes
 * those of pods that are gone.
 */
export async function updateMetrics(api: ApiClient, now: number): Promise<void> {
  const pods = await api.list('/api/v1/pods');
  const measured = pods.filter((pod) => isMeasured(pod, now));
  for (const pod of measured) await write(api, podMetrics(pod, now));
  const alive = new Set(measured.map(key));
  for (const stale of await api.list('/apis/metrics.k8s.io/v1beta1/pods')) {
    const object = { ...stale, apiVersion: 'metrics.k8s.io/v1beta1', kind: 'PodMetrics' };
    if (!alive.has(key(stale))) await api.remove(objectPath(object), 0);
  }
  for (const node of NODES) await write(api, nodeMetrics(node.name, now));
}

async function write(api: ApiClient, metrics: KubeObject): Promise<void> {
  const { metadata: _metadata, ...fields } = metrics;
  if (await api.patch(objectPath(metrics), fields)) return;
  await api.ensure(metrics);
}

function isMeasured(pod: KubeObject, now: number): boolean {
  if (pod.status?.['phase'] !== 'Running') return false;
  const startedAt = containerTimes(pod).mainStartedAt;
  return startedAt !== undefined && now - Date.parse(startedAt) >= YOUNGEST_MS;
}

function podMetrics(pod: KubeObject, now: number): KubeObject {
  const { name, namespace = '', labels = {} } = pod.metadata;
  // Every pod has a phase of its own, between a fifth and nine tenths of one to two cores.
  const share = wave(name, now);
  const nanocores = Math.round(share * 1e9 * (1 + unit(name)));
  const kibibytes = Math.round((256 + 1024 * unit(name) + 64 * share) * 1024);
  const usage = { cpu: `${nanocores}n`, memory: `${kibibytes}Ki` };
  return {
    apiVersion: 'metrics.k8s.io/v1beta1',
    kind: 'PodMetrics',
    metadata: { name, namespace, labels },
    timestamp: apiTime(now),
    window: WINDOW,
    containers: [{ name: 'main', usage }],
  };
}

function nodeMetrics(name: string, now: number): KubeObject {
  const usage = {
    cpu: `${Math.round(wave(name, now) * 8e9)}n`,
    memory: `${Math.round(wave(name, now) * 32 * 1024 * 1024)}Ki`,
  };
  return {
    apiVersion: 'metrics.k8s.io/v1beta1',
    kind: 'NodeMetrics',
    metadata: { name },
    timestamp: apiTime(now),
    window: WINDOW,
    usage,
  };
}

/** Between a fifth and nine tenths, moving with time; every name has a phase of its own. */
export function wave(name: string, now: number): number {
  return 0.55 + 0.35 * Math.sin(2 * Math.PI * (now / WAVE_MS + unit(name)));
}

/** A number in [0, 1) that belongs to a name. */
export function unit(name: string): number {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + character.charCodeAt(0)) % 1_000_003;
  return hash / 1_000_003;
}

function key(object: KubeObject): string {
  return `${object.metadata.namespace ?? ''}/${object.metadata.name}`;
}
