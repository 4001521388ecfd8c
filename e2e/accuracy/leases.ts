import type { ApiClient, Body } from '../simulator/api-client.ts';
import { type KubeObject, objectPath } from '../simulator/objects.ts';
import { passes } from './passes.ts';

const NAMESPACE = 'kube-node-lease';
/** What a kubelet does by default: https://kubernetes.io/docs/concepts/architecture/nodes/#heartbeats */
const RENEWED_EVERY_MS = 10_000;
const DURATION_SECONDS = 40;
/** More would cost the API server more than they add to what is measured. */
const MOST = 20;

/**
 * Renews the lease of each of these nodes, as their kubelets would, one after the other within ten
 * seconds, until `signal` is aborted.
 */
export async function renewLeases(
  api: ApiClient,
  nodes: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await api.ensure({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } });
  const holders = nodes.slice(0, MOST);
  await Promise.all(
    holders.map(async (node, index) => {
      const { object } = await api.ensure(await leaseOf(api, node));
      const path = objectPath(object);
      await passes((index * RENEWED_EVERY_MS) / holders.length, signal);
      while (!signal.aborted) {
        // Another time for each try, as kubelets do: what waited for the API server is no older.
        await api.patch(path, () => ({ spec: { renewTime: microTime(Date.now()) } }));
        await passes(RENEWED_EVERY_MS, signal);
      }
    }),
  );
}

async function leaseOf(api: ApiClient, node: string): Promise<KubeObject> {
  const found = await api.get(`/api/v1/nodes/${node}`);
  if (found === undefined) throw new Error(`leases: no node: "${node}"`);
  const { name, uid } = found.metadata;
  const spec: Body = { holderIdentity: name, leaseDurationSeconds: DURATION_SECONDS };
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name,
      namespace: NAMESPACE,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid: uid ?? '' }],
    },
    spec,
  };
}

/** RFC 3339 to the microsecond, as the API has it in leases. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}
