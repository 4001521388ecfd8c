import type { RawObject } from '../../../kubernetes/source.ts';
import type { ObjectOptions } from '../../testing/objects.ts';

export interface K3kClusterOptions extends ObjectOptions {
  readonly mode?: string;
}

/** A Cluster as k3k has it once it runs. */
export function k3kCluster(
  namespace: string,
  name: string,
  { mode = 'shared', created, labels = {}, annotations = {} }: K3kClusterOptions = {},
): RawObject {
  return {
    apiVersion: 'k3k.io/v1beta1',
    kind: 'Cluster',
    metadata: {
      uid: `k3k/${namespace}/${name}`,
      namespace,
      name,
      creationTimestamp: created ?? '2026-01-01T00:00:00Z',
      labels,
      annotations,
    },
    spec: { mode, servers: 1, agents: mode === 'virtual' ? 1 : 0 },
    status: { phase: 'Ready' },
  };
}
