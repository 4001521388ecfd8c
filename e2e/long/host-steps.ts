import { join, resolve } from 'node:path';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { manifest } from '../local/custom-resources.ts';
import type { ApiClient } from '../simulator/api-client.ts';
import type { ObjectMeta } from '../simulator/objects.ts';
import { acceptPod, runContainers } from '../simulator/pod-lifecycle.ts';
import { podObject } from '../simulator/pods.ts';
import type { ShippedProgram } from './shipped-program.ts';

export const ROOT = resolve(import.meta.dirname, '../..');
export const WINDOW_MS = 10_000;
export const CPU = 'tenant_cpu_core_hours';

/** What pods of walks ask for: in a window of ten seconds 3.6 cores are 0.01 core-hours. */
export const CORES = 3.6;

/** Core-hours of a window, of pods that ask for so many times {@link CORES}. */
export function perWindow(parts: number): number {
  return parts / 100;
}

/** The policy that walks change. */
export const POLICY = {
  apiVersion: 'meterfeed.io/v1alpha1',
  kind: 'MeteringPolicy',
  metadata: { name: 'default' },
  spec: {},
};

export function apply(cluster: TestCluster, ...objects: readonly object[]): Promise<string> {
  return cluster.kubectl(['apply', '--server-side', '--filename', '-'], manifest(objects));
}

/** Puts the operator's manifests onto a cluster, with custom resources of others (`e2e/simulator/manifests`). */
export async function installManifests(
  cluster: TestCluster,
  ...others: readonly string[]
): Promise<void> {
  await cluster.kubectl(['apply', '--kustomize', ROOT]);
  await installResources(cluster, ...others);
}

/** Waits until all custom resources are served, those given too. */
export async function installResources(
  cluster: TestCluster,
  ...names: readonly string[]
): Promise<void> {
  for (const name of names) {
    const file = join(ROOT, `e2e/simulator/manifests/${name}.yaml`);
    await cluster.kubectl(['apply', '--filename', file]);
  }
  await cluster.kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
}

/** Gives the operator the rights of components. */
export async function grant(cluster: TestCluster, ...components: readonly string[]): Promise<void> {
  for (const component of components) {
    const rights = join(ROOT, `config/components/${component}/rbac.yaml`);
    await cluster.kubectl(['apply', '--filename', rights]);
  }
}

/** A pod that runs on a node, and asks for so many times {@link CORES}. */
export async function runPod(
  api: ApiClient,
  metadata: ObjectMeta,
  node: string,
  parts: number,
): Promise<void> {
  const requests = { cpu: String(CORES * parts), memory: '1Gi' };
  const { object } = await api.ensure(podObject(metadata, node, requests, 'Always'));
  await acceptPod(api, object, Date.now());
  await runContainers(api, object, Date.now());
}

export function patchDiscovery(cluster: TestCluster, discovery: object): Promise<string> {
  const patch = JSON.stringify({ spec: { discovery } });
  return cluster.kubectl([
    'patch',
    'meteringpolicy',
    'default',
    '--type=merge',
    `--patch=${patch}`,
  ]);
}

export async function discoveryProblems(program: ShippedProgram): Promise<unknown> {
  return (await program.get('/api/v1/status'))['discovery_problems'];
}

/** What each window of the last hour was billed of a metric, all tenants together. */
export async function windowSums(
  program: ShippedProgram,
  metric: string,
): Promise<readonly number[]> {
  return [...(await program.bills(metric)).values()].map((bill) =>
    Object.values(bill).reduce((sum, quantity) => sum + quantity, 0),
  );
}
