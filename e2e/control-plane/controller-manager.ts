import { join } from 'node:path';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { findGoTool } from '../tools/go-tools.ts';
import { renderFlags } from './flags.ts';
import { freePort, listens } from './ports.ts';

/** What empties namespaces, collects what owners leave behind, makes pods of StatefulSets, and binds, makes and deletes volumes. */
const CONTROLLERS = [
  'namespace-controller',
  'garbage-collector-controller',
  'statefulset-controller',
  'persistentvolume-binder-controller',
  'persistentvolume-protection-controller',
  'persistentvolumeclaim-protection-controller',
];

/** What makes the pods of a Deployment, fills the endpoints of its Services and counts for its PodDisruptionBudget. */
export const DEPLOYMENT_CONTROLLERS: readonly string[] = [
  'deployment-controller',
  'replicaset-controller',
  'endpointslice-controller',
  'disruption-controller',
];

/** Its provisioner of volumes: directories of this machine, below `/tmp/hostpath_pv`. */
export const HOST_PATH_PROVISIONER = 'kubernetes.io/host-path';

/** Starts a real kube-controller-manager for a control plane; there is still no scheduler and no kubelet. */
export async function startControllerManager({
  directory,
  kubeconfigPath,
  controllers = CONTROLLERS,
}: {
  readonly directory: string;
  readonly kubeconfigPath: string;
  /** The only ones that run. */
  readonly controllers?: readonly string[];
}): Promise<ManagedProcess> {
  const command = await findGoTool('kube-controller-manager', (line) =>
    process.stderr.write(`[tools] ${line}\n`),
  );
  const port = await freePort();
  return startProcess({
    name: 'kube-controller-manager',
    command,
    args: renderFlags({
      kubeconfig: kubeconfigPath,
      controllers: controllers.join(),
      'enable-hostpath-provisioner': 'true',
      'leader-elect': 'false',
      'bind-address': '127.0.0.1',
      'secure-port': String(port),
      'cert-dir': join(directory, 'controller-manager'),
      // How soon what changed is seen where no watch tells.
      'pvclaimbinder-sync-period': '1s',
    }),
    env: { PATH: process.env['PATH'] },
    logFile: join(directory, 'kube-controller-manager.log'),
    pidFile: join(directory, 'kube-controller-manager.pid'),
    ready: () => listens(port),
  });
}
