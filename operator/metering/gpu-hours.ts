import { FULL, type GpuDevice, type HeldGpus, UNKNOWN_GPU } from '../observation/gpu-device.ts';
import { migDevice } from '../observation/node-devices.ts';
import type { NodeState } from '../observation/node-state.ts';
import type { PodState } from '../observation/pod-timeline.ts';
import { PARTS_PER_GPU } from '../model/gpu-parts.ts';
import { createGpuCharges } from './gpu-charges.ts';
import type { Meter, MeterSettings } from './meter.ts';
import { nodesByName } from './node-stretches.ts';
import { isExcludedNamespace } from './own-nodes.ts';
import { onLateNodes, visitPieces } from './pieces.ts';

/**
 * GPU hours of pods on shared nodes, in GPU-equivalents, and downtime while their node is down
 * (design 7): the GPUs that device plugins give out. What claims hold is metered by the claims.
 */
export const meterGpuHours: Meter = (input) => {
  const { observation, settings } = input;
  const nodeAt = nodesByName(input);
  const charge = createGpuCharges(input);
  visitPieces(
    input,
    observation.pods,
    (piece) => {
      const { state, cluster, timeline, asBilled, carried, weight } = piece;
      if (state.requests.extended.size === 0) return;
      if (state.phase === 'bound' && cluster.metering.podLifetime === 'running') return;
      if (isExcludedNamespace(input, cluster, timeline.namespace)) return;
      const holder = {
        kind: 'Pod',
        object: timeline,
        state,
        cluster,
        nodeName: state.node,
        carried,
        weight,
      } as const;
      for (const stretch of nodeAt(state.node, piece.from, piece.to, asBilled)) {
        for (const held of pluggedGpus(state, stretch.state, settings)) {
          charge(holder, stretch, held);
        }
      }
    },
    onLateNodes(input),
  );
};

/**
 * What a pod holds of its node's device plugins. Devices stay with a pod for all its life, so its
 * effective requests are what it holds.
 */
export function pluggedGpus(
  pod: PodState,
  node: NodeState | undefined,
  settings: Pick<MeterSettings, 'gpuResources'>,
): readonly HeldGpus[] {
  const held: HeldGpus[] = [];
  for (const [resource, devices] of pod.requests.extended) {
    const device = deviceOf(resource, node, settings.gpuResources);
    if (device !== undefined) held.push({ device, devices, parts: BigInt(devices) * device.parts });
  }
  return held;
}

/** A node names its devices; of a node that was never seen only the resource's name is known. */
function deviceOf(
  resource: string,
  node: NodeState | undefined,
  gpuResources: readonly string[],
): GpuDevice | undefined {
  const named = node?.devices.get(resource);
  if (named !== undefined) return named;
  const mig = migDevice(node?.gpuType ?? UNKNOWN_GPU, resource);
  if (mig !== undefined || node !== undefined || !gpuResources.includes(resource)) return mig;
  return { type: UNKNOWN_GPU, profile: FULL, parts: PARTS_PER_GPU };
}
