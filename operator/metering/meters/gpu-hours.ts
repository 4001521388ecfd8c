import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { FULL, type GpuDevice, type HeldGpus, UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import { HAMI_RESOURCE } from '../timelines/hami-node.ts';
import { migDevice } from '../timelines/node-devices.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { PodState } from '../timelines/pod.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import { type ClaimUse, claimUses } from './claim-use.ts';
import { createDeviceCatalogue } from './device-catalogue.ts';
import { claimedGpus } from './dra-devices.ts';
import { createGpuCharges } from './gpu-charges.ts';
import { fractionGpus } from './fraction-gpus.ts';
import { hamiGpus } from './hami-gpus.ts';
import {
  type GpuQuantity,
  isExcludedNamespace,
  type Meter,
  type MeterInput,
  type MeterSettings,
} from './meter.ts';
import { nodesByName } from './node-owners.ts';
import { onLateNodes, visitPieces } from './window-spans.ts';

/**
 * GPU hours of pods on shared nodes, in GPU-equivalents, and downtime while their node is down
 * (docs/explanation/gpus.md#gpus): the GPUs that device plugins give out. What claims hold is metered by the
 * claims.
 */
export const meterGpuHours: Meter = function* (input) {
  const { observation } = input;
  const nodeAt = nodesByName(input);
  const charge = createGpuCharges(input);
  const rules = pluggedRules(input);
  yield* visitPieces(
    input,
    observation.pods,
    (piece) => {
      const { state, cluster, timeline, asBilled, carried, weight, mapped } = piece;
      if (!mayHoldOfNode(state)) return;
      const { podLifetime, gpuQuantity } = cluster.metering;
      if (state.phase === 'bound' && podLifetime === 'running') return;
      if (isExcludedNamespace(input, cluster, timeline.namespace)) return;
      const holder = {
        kind: 'Pod',
        object: timeline,
        state,
        cluster,
        nodeName: state.node,
        carried,
        weight,
        mapped,
        uncertain: piece.uncertain,
      } as const;
      for (const stretch of nodeAt(state.node, piece.from, piece.to, asBilled)) {
        for (const held of pluggedGpus(state, stretch.state, rules, gpuQuantity)) {
          charge(holder, stretch, held);
        }
      }
    },
    onLateNodes(input),
  );
};

/** Whether a pod may hold GPUs that are its node's to give, rather than a claim's. */
export function mayHoldOfNode({ requests, gpuShares }: PodState): boolean {
  return requests.extended.size > 0 || gpuShares !== undefined;
}

/** What decides what a pod holds of its node. */
export type PluggedRules = Pick<MeterSettings, 'gpuResources'> & Pick<MeterInput, 'privateNodes'>;

/** The rules of a window. */
export function pluggedRules({ settings, privateNodes }: MeterInput): PluggedRules {
  return { gpuResources: settings.gpuResources, privateNodes };
}

/**
 * What a pod holds of its node's device plugins. Devices stay with a pod for all its life, so its
 * effective requests are what it holds, and where it has none by name what its annotations ask for of
 * GPUs that another pod holds. `quantity` says what is billed of it.
 */
export function pluggedGpus(
  pod: PodState,
  node: NodeState | undefined,
  rules: PluggedRules,
  quantity: GpuQuantity = 'equivalents',
): readonly HeldGpus[] {
  const held: HeldGpus[] = [];
  const hami = node?.hami;
  if (hami !== undefined) held.push(...hamiGpus(pod, hami, quantity));
  for (const [resource, devices] of pod.requests.extended) {
    if (hami !== undefined && resource === HAMI_RESOURCE) continue;
    const device = deviceOf(resource, node, rules.gpuResources);
    if (device === undefined) continue;
    const gpus = { device, devices, units: BigInt(devices) * device.units };
    const asDevices = BigInt(devices) * UNITS_PER_GPU;
    held.push(quantity === 'devices' ? { ...gpus, asDevices } : gpus);
  }
  // On nodes of its own the pod that holds the GPU is the tenant's as well, and covers the parts.
  if (held.length > 0 || rules.privateNodes === true || pod.gpuShares === undefined) return held;
  const part = fractionGpus(pod.gpuShares, node, quantity);
  return part === undefined ? held : [part];
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
  return { type: UNKNOWN_GPU, profile: FULL, units: UNITS_PER_GPU };
}

/**
 * GPU hours of resource claims (docs/explanation/gpus.md#resource-claims): while a pod runs that a claim is
 * reserved for, its devices are charged once, however many such pods there are; with `podLifetime:
 * scheduled` from allocation on. Downtime and whole nodes as for GPUs of device plugins.
 */
export const meterClaimedGpus: Meter = function* (input) {
  const { observation, settings } = input;
  const { draGpuDrivers: drivers } = settings;
  const catalogue = createDeviceCatalogue(observation.resourceSlices);
  const nodeAt = nodesByName(input);
  const charge = createGpuCharges(input);
  /** Where the claim's GPUs are; undefined when it has none. */
  const nodeOf = ({ node, allocation }: ClaimUse): string | undefined => {
    const gpu = allocation.devices.find(({ driver }) => drivers.includes(driver));
    // Drivers of devices that are tied to a node name the pool after it.
    return gpu && (node ?? gpu.pool);
  };
  const lateNodes = new Set([...observation.nodes.late()].map(({ name }) => name));
  yield* visitPieces(
    input,
    claimUses(observation),
    ({ state, cluster, timeline, from, to, asBilled, carried, weight, mapped, uncertain }) => {
      const { podLifetime, gpuQuantity } = cluster.metering;
      if (state.phase === 'held' && podLifetime === 'running') return;
      if (isExcludedNamespace(input, cluster, timeline.namespace)) return;
      const nodeName = nodeOf(state);
      if (nodeName === undefined) return;
      const claim = { labels: state.labels, node: nodeName };
      const holder = {
        kind: 'ResourceClaim',
        object: timeline,
        state: claim,
        cluster,
        nodeName,
        carried,
        weight,
        mapped,
        uncertain,
      } as const;
      for (const stretch of nodeAt(nodeName, from, to, asBilled)) {
        const published = (device: AllocatedDevice) => catalogue.find(device, stretch.from);
        for (const held of claimedGpus(state, stretch.state, drivers, published, gpuQuantity)) {
          charge(holder, stretch, held);
        }
      }
    },
    lateNodes.size === 0
      ? undefined
      : ({ spans }) => spans.some(({ state }) => lateNodes.has(nodeOf(state) ?? '')),
  );
};
