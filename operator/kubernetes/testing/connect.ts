import { KubeConfig } from '@kubernetes/client-node';
import { Connection } from '../connection.ts';

/** A connection from the text of a kubeconfig. */
export function connectWith(kubeconfig: string): Connection {
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromString(kubeconfig);
  return new Connection(kubeConfig);
}
