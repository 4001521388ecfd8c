import { join, resolve } from 'node:path';
import type { Kubectl } from '../control-plane/kubectl.ts';
import { type LagoAccess, standardPrices } from './local-plan.ts';
import { TRIAL } from './trial-tenant.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The operator's own namespace, where Secrets are looked for. */
export const OPERATOR_NAMESPACE = 'meterfeed-system';

export interface LocalReceiver {
  readonly url: string;
  readonly secret: string;
}

/** A Lago whose plan has been set up in a currency. */
export interface LocalLago extends LagoAccess {
  /** ISO 4217 */
  readonly currency: string;
}

/**
 * Applies what an administrator would: the custom resource definitions and a webhook destination that
 * points at the local receiver, one for the local Lago where there is one; in a new cluster also the samples, the policy
 * that refuses pods of who is suspended, prices for the plan that all tenants are on, an override that has one tenant pay
 * beforehand, one that bills the tenant cluster of short-lived pods by requests and
 * namespace, so that each pod's seconds can be read off its events, and two that tell the traffic of tenant clusters
 * apart which share a namespace. What was changed or deleted in a kept cluster stays so.
 */
export async function applyCustomResources(
  kubectl: Kubectl,
  receiver: LocalReceiver,
  lago?: LocalLago,
): Promise<void> {
  const apply = (...args: readonly string[]): Promise<string> =>
    kubectl(['apply', '--server-side', '--force-conflicts', ...args]);
  const applyObjects = (objects: readonly object[]): Promise<string> =>
    kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], manifest(objects));
  await apply('-k', join(ROOT, 'crds'));
  await kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
  // The namespace comes after the samples: where it exists, they were applied.
  const known = await kubectl(['get', 'namespace', OPERATOR_NAMESPACE, '--ignore-not-found']);
  if (known === '') {
    await apply('-k', join(ROOT, 'config/samples'));
    await apply('-f', join(ROOT, 'config/components/suspension-policy/policy.yaml'));
    await applyObjects([(await standardPrices()).object]);
    await applyObjects([TRIAL_OVERRIDE, BURST_OVERRIDE, ...SHARED_NAMESPACE_OVERRIDES]);
    await applyObjects([NAMESPACE]);
  }
  await applyObjects(webhookDestination('local-receiver', receiver));
  if (lago !== undefined) await applyObjects(lagoDestination('local-lago', lago));
}

/** Applies the definitions, and fields of the MeteringPolicy over those that it has. */
export async function applyPolicy(kubectl: Kubectl, spec: object): Promise<void> {
  await kubectl(['apply', '--server-side', '--force-conflicts', '-k', join(ROOT, 'crds')]);
  await kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
  const policy = {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'MeteringPolicy',
    metadata: { name: 'default' },
    spec,
  };
  const manager = '--field-manager=local-policy';
  await kubectl(
    ['apply', '--server-side', '--force-conflicts', manager, '-f', '-'],
    manifest([policy]),
  );
}

/**
 * Applies what a cluster of a fleet has: the custom resource definitions, the operator's namespace, and prices for the plan
 * that all tenants are on. Its destinations are those of the hub.
 */
export async function applyFleetResources(kubectl: Kubectl): Promise<void> {
  const apply = (args: readonly string[], input?: string): Promise<string> =>
    kubectl(['apply', '--server-side', '--force-conflicts', ...args], input);
  await apply(['-k', join(ROOT, 'crds')]);
  await kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
  await apply(['-f', '-'], manifest([NAMESPACE, (await standardPrices()).object]));
}

/** A webhook destination of the given name whose Secret carries the same name, in the namespace of whoever feeds it. */
export function webhookDestination(
  name: string,
  receiver: LocalReceiver,
  namespace: string = OPERATOR_NAMESPACE,
): readonly object[] {
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace },
      stringData: { 'signing-key': receiver.secret },
    },
    {
      apiVersion: 'meterfeed.io/v1alpha1',
      kind: 'BillingDestination',
      metadata: { name },
      spec: {
        type: 'webhook',
        startFrom: 'earliest',
        webhook: { url: receiver.url, secretRefs: [{ name, key: 'signing-key' }] },
      },
    },
  ];
}

function lagoDestination(name: string, lago: LocalLago): readonly object[] {
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: OPERATOR_NAMESPACE },
      stringData: { 'api-key': lago.apiKey },
    },
    {
      apiVersion: 'meterfeed.io/v1alpha1',
      kind: 'BillingDestination',
      metadata: { name },
      spec: {
        type: 'lago',
        startFrom: 'earliest',
        lago: {
          url: lago.url,
          apiKeySecretRef: { name, key: 'api-key' },
          currency: lago.currency,
        },
      },
    },
  ];
}

/** Several objects as kubectl takes them from one stream. */
export function manifest(items: readonly object[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
}

const TRIAL_OVERRIDE = {
  apiVersion: 'meterfeed.io/v1alpha1',
  kind: 'TenantOverride',
  metadata: { name: 'trial' },
  spec: {
    match: { namespace: 'tenant-trial', name: 'trial' },
    budget: {
      amount: TRIAL.amount,
      currency: TRIAL.currency,
      period: 'prepaid',
      thresholds: [50, 100],
      atLimit: 'suspend',
    },
  },
};

const BURST_OVERRIDE = {
  apiVersion: 'meterfeed.io/v1alpha1',
  kind: 'TenantOverride',
  metadata: { name: 'burst' },
  spec: {
    match: { namespace: 'tenant-burst', name: 'burst' },
    metering: { cpuMemoryBasis: 'requests', meterByNamespace: true },
  },
};

/** The names of synced pods end in that of their tenant cluster. */
const SHARED_NAMESPACE_OVERRIDES = ['blue', 'green'].map((name) => ({
  apiVersion: 'meterfeed.io/v1alpha1',
  kind: 'TenantOverride',
  metadata: { name },
  spec: {
    match: { namespace: 'tenant-shared', name },
    metering: {
      egressQuery:
        'sum(increase(container_network_transmit_bytes_total{namespace="{{namespace}}",pod=~".+-x-{{vcluster}}"}[{{window}}]))',
      gpuUtilQuery:
        'avg by (modelName) (max by (UUID, modelName) (avg_over_time(DCGM_FI_DEV_GPU_UTIL{exported_namespace="{{namespace}}",exported_pod=~".+-x-{{vcluster}}"}[{{window}}])))',
    },
  },
}));

const NAMESPACE = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: OPERATOR_NAMESPACE } };
