import type { RawObject } from '../../../kubernetes/source.ts';
import { gpuNode, N1, type NodeFixture, variant } from './gpu-nodes.ts';
import { SYNCED_LABELS, pod, type PodFixture } from './objects.ts';

/** Nodes and pods as HAMi's device plugin and scheduler annotate them. */

/** MiB of an H100. */
export const MIB = 81_920;

/** A physical GPU as it is registered; `health` is left out when it is false. */
export function registered(index: number, more: RawObject = {}): RawObject {
  return {
    id: `GPU-${index}`,
    index,
    count: 10,
    devmem: MIB,
    devcore: 100,
    type: 'NVIDIA-NVIDIA H100 80GB HBM3',
    mode: 'hami-core',
    health: true,
    ...more,
  };
}

/** Eight H100, each shared by up to ten. */
export const HAMI: NodeFixture = variant(N1, { capacity: { 'nvidia.com/gpu': '80' } });

export const EIGHT = Array.from({ length: 8 }, (_, index) => registered(index));

/** The node with HAMi's annotation, as JSON or as the given text. */
export function hamiNode(
  devices: readonly RawObject[] | string = EIGHT,
  fixture: NodeFixture = HAMI,
): RawObject {
  const { metadata, ...rest } = gpuNode(fixture);
  const register = typeof devices === 'string' ? devices : JSON.stringify(devices);
  return {
    ...rest,
    metadata: {
      ...(metadata as RawObject),
      annotations: { 'hami.io/node-nvidia-register': register },
    },
  };
}

/** A pod with the shares that HAMi allocated to it. */
export function hamiGiven(given: string | undefined, fixture: Partial<PodFixture> = {}): RawObject {
  const { labels = SYNCED_LABELS, ...rest } = fixture;
  return pod({
    name: 'p',
    node: 'n1',
    labels,
    ...rest,
    metadata: {
      ...fixture.metadata,
      ...(given === undefined
        ? {}
        : {
            annotations: {
              'hami.io/vgpu-devices-allocated': given,
              'hami.io/vgpu-node': 'n1',
              'hami.io/bind-phase': 'success',
            },
          }),
    },
  });
}
