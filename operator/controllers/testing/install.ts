import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { CRD_DIRECTORY, PLURALS } from './schemas.ts';

/** Installs the custom resources as a user does; several test files may do so at once. */
export async function installCustomResources(cluster: TestCluster): Promise<void> {
  await cluster.kubectl(['apply', '--server-side', '--kustomize', CRD_DIRECTORY]);
  const crds = PLURALS.map((plural) => `crd/${plural}.meterfeed.io`);
  await cluster.kubectl(['wait', '--for=condition=Established', '--timeout=30s', ...crds]);
}
