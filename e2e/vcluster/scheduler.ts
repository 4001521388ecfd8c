import { join } from 'node:path';
import type { EphemeralControlPlane } from '../control-plane/ephemeral.ts';
import { renderFlags } from '../control-plane/flags.ts';
import { freePort, listens } from '../control-plane/ports.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';

/** Starts a real kube-scheduler for a control plane. */
export async function startScheduler(
  command: string,
  plane: EphemeralControlPlane,
): Promise<ManagedProcess> {
  const port = await freePort();
  return startProcess({
    name: 'kube-scheduler',
    command,
    args: renderFlags({
      kubeconfig: plane.kubeconfigPath,
      'leader-elect': 'false',
      'bind-address': '127.0.0.1',
      'secure-port': String(port),
      'cert-dir': join(plane.directory, 'scheduler'),
    }),
    env: { PATH: process.env['PATH'] },
    logFile: join(plane.directory, 'kube-scheduler.log'),
    pidFile: join(plane.directory, 'kube-scheduler.pid'),
    ready: () => listens(port),
  });
}
