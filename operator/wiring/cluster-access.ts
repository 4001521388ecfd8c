import type { Environment } from '../config/load-environment.ts';
import { type ClusterAccess, inClusterNamespace } from '../kubernetes/kube-config.ts';

/** Where the operator's objects live when it runs outside of a cluster. */
const DEFAULT_NAMESPACE = 'meterfeed-system';

/** KUBECONFIG when it is set, else the service account of the pod. */
export function clusterAccess(environment: Environment): ClusterAccess {
  const path = environment['KUBECONFIG'];
  if (path !== undefined && path !== '') return { kind: 'file', path };
  return {
    kind: 'in-cluster',
    host: environment['KUBERNETES_SERVICE_HOST'] ?? '',
    port: environment['KUBERNETES_SERVICE_PORT'] ?? '443',
  };
}

/** The operator's own namespace: its Lease, and the only Secrets that destinations may name. */
export function ownNamespace(environment: Environment): string {
  return environment['POD_NAMESPACE'] || inClusterNamespace() || DEFAULT_NAMESPACE;
}
