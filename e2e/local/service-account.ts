import { parse } from 'yaml';
import type { SharedCluster } from '../control-plane/test-cluster.ts';
import type { Kubectl } from '../control-plane/kubectl.ts';
import { OPERATOR_NAMESPACE } from './custom-resources.ts';

/** A kubeconfig with the rights that the installed manifests give the operator, and no others. */
export async function operatorKubeconfig({
  kubectl,
  kubeconfig,
}: Pick<SharedCluster, 'kubeconfig'> & { readonly kubectl: Kubectl }): Promise<string> {
  const account = ['create', 'token', 'meterfeed', `--namespace=${OPERATOR_NAMESPACE}`];
  const token = (await kubectl(account)).trim();
  const config = parse(kubeconfig) as { readonly users: readonly { readonly name: string }[] };
  const users = config.users.map(({ name }) => ({ name, user: { token } }));
  return JSON.stringify({ ...config, users });
}
