import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Kubectl } from '../control-plane/kubectl.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The operator's own namespace, where Secrets are looked for (design 4). */
export const OPERATOR_NAMESPACE = 'meterfeed-system';

export interface LocalReceiver {
  readonly url: string;
  readonly secret: string;
}

/**
 * Applies what an administrator would: the custom resource definitions, the samples, a webhook
 * destination that points at the local receiver, and an override that bills the tenant cluster of
 * short-lived pods by requests and namespace, so that each pod's seconds can be read off its events.
 */
export async function applyCustomResources(
  kubectl: Kubectl,
  receiver: LocalReceiver,
): Promise<void> {
  const serverSide = ['apply', '--server-side', '--force-conflicts'];
  await kubectl([...serverSide, '-k', join(ROOT, 'crds')]);
  await kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
  await kubectl([...serverSide, '-f', '-'], JSON.stringify(namespace()));
  const samples = join(ROOT, 'config/samples');
  if (existsSync(samples)) await kubectl([...serverSide, '-k', samples]);
  await kubectl([...serverSide, '-f', '-'], JSON.stringify(list(localObjects(receiver))));
}

/** A webhook destination of the given name whose Secret carries the same name. */
export function webhookDestination(name: string, receiver: LocalReceiver): readonly object[] {
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: OPERATOR_NAMESPACE },
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

/** Several objects as kubectl takes them from one stream. */
export function list(items: readonly object[]): object {
  return { apiVersion: 'v1', kind: 'List', items };
}

function localObjects(receiver: LocalReceiver): readonly object[] {
  return [
    ...webhookDestination('local-receiver', receiver),
    {
      apiVersion: 'meterfeed.io/v1alpha1',
      kind: 'TenantOverride',
      metadata: { name: 'burst' },
      spec: {
        match: { namespace: 'tenant-burst', name: 'burst' },
        metering: { cpuMemoryBasis: 'requests', meterByNamespace: true },
      },
    },
  ];
}

function namespace(): object {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: OPERATOR_NAMESPACE } };
}
