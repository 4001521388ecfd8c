import { startControllerManager } from '../control-plane/controller-manager.ts';
import {
  type EphemeralControlPlane,
  startEphemeralControlPlane,
} from '../control-plane/ephemeral.ts';
import type { ManagedProcess } from '../processes/managed-process.ts';
import type { ApiClient } from '../simulator/api-client.ts';
import { ensureNodes, type SimulatedNode } from '../simulator/nodes.ts';
import { startScheduler } from './scheduler.ts';
import type { Programs } from './programs.ts';

/** The cluster under the tenants: etcd, API server, controllers and scheduler, all real. */
export interface Host {
  readonly plane: EphemeralControlPlane;
  stop(): Promise<void>;
}

export async function startHost(programs: Programs): Promise<Host> {
  const plane = await startEphemeralControlPlane({
    apiServerFlags: {
      // Nodes come without a taint, which nothing but a node controller would take off again.
      'disable-admission-plugins': 'ServiceAccount,TaintNodesByCondition',
    },
  });
  const others: ManagedProcess[] = [];
  const stop = async (): Promise<void> => {
    for (const each of others) await each.stop();
    await plane.stop();
  };
  try {
    others.push(await startControllerManager(plane));
    others.push(await startScheduler(programs.scheduler, plane));
    return { plane, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const ROOM = { pods: '250', 'ephemeral-storage': '2Ti' };

const NODES: readonly SimulatedNode[] = [
  ...['cpu-1', 'cpu-2'].map((name) => ({
    name,
    instanceType: 'm6i.8xlarge',
    zone: 'local-a',
    labels: {},
    resources: { ...ROOM, cpu: '64', memory: '256Gi' },
  })),
  {
    name: 'gpu-1',
    instanceType: 'p5.48xlarge',
    zone: 'local-a',
    labels: {
      'nvidia.com/gpu.present': 'true',
      'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3',
      'nvidia.com/gpu.count': '8',
      'nvidia.com/gpu.replicas': '1',
    },
    resources: { ...ROOM, cpu: '192', memory: '2Ti', 'nvidia.com/gpu': '8' },
  },
];

/** Two nodes without and one with eight GPUs, and a class of volumes. */
export async function furnish(api: ApiClient): Promise<void> {
  await ensureNodes(api, Date.now(), NODES);
  await api.ensure({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: {
      name: 'fast',
      annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
    },
    provisioner: 'volumes.example.com',
    volumeBindingMode: 'Immediate',
  });
}
