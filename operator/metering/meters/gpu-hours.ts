import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { FULL, type GpuDevice, type AllocatedGpus, UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import { HAMI_RESOURCE } from '../timelines/hami-node.ts';
import { migDevice } from '../timelines/node-devices.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { PodState } from '../timelines/pod.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import { type ClaimUse, claimUses } from './claim-use.ts';
import { DeviceCatalogue } from './device-catalogue.ts';
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
import { onLateNodes, visitWindowSpans } from './window-spans.ts';

/**
 * Charges GPU hours of pods on shared nodes, and downtime while their node is down
 * (docs/explanation/gpus.md#gpus). These are the GPUs of device plugins, in GPU-equivalents; {@link
 * meterClaimedGpus} charges those of claims.
 */
export const meterGpuHours: Meter = function* (input) {
  const { observation } = input;
  const nodeAt = nodesByName(input);
  const charge = createGpuCharges(input);
  const rules = pluggedRules(input);
  yield* visitWindowSpans(
    input,
    observation.pods,
    (span) => {
      const { state, cluster, timeline } = span;
      if (!mayUsePluggedGpus(state)) return;
      const { podLifetime, gpuQuantity } = cluster.metering;
      if (state.phase === 'bound' && podLifetime === 'running') return;
      if (isExcludedNamespace(input, cluster, timeline.namespace)) return;
      const holder = { ...span, kind: 'Pod', nodeName: state.node } as const;
      for (const stretch of nodeAt(state.node, span.from, span.to, span.asBilled)) {
        for (const gpus of pluggedGpus(state, stretch.state, rules, gpuQuantity)) {
          charge(holder, stretch, gpus);
        }
      }
    },
    onLateNodes(input, ({ node }) => node),
  );
};

/** Whether a pod may use GPUs of its node's device plugins, rather than a claim's. */
export function mayUsePluggedGpus({ requests, gpuShares }: PodState): boolean {
  return requests.extended.size > 0 || gpuShares !== undefined;
}

/** The rules for a pod's GPUs of device plugins. */
export type PluggedRules = Pick<MeterSettings, 'gpuResources'> & Pick<MeterInput, 'privateNodes'>;

/** Returns the rules of a window. */
export function pluggedRules({ settings, privateNodes }: MeterInput): PluggedRules {
  return { gpuResources: settings.gpuResources, privateNodes };
}

/**
 * Returns a pod's GPUs of its node's device plugins. Devices stay with a pod for all its life, so
 * its effective requests count. Without any, its annotations count, which request parts of a GPU
 * that another pod reserves. `quantity` decides what is billed.
 */
export function pluggedGpus(
  pod: PodState,
  node: NodeState | undefined,
  rules: PluggedRules,
  quantity: GpuQuantity = 'equivalents',
): readonly AllocatedGpus[] {
  const allocated: AllocatedGpus[] = [];
  const hami = node?.hami;
  if (hami !== undefined) allocated.push(...hamiGpus(pod, hami, quantity));
  for (const [resource, devices] of pod.requests.extended) {
    if (hami !== undefined && resource === HAMI_RESOURCE) continue;
    const device = deviceOf(resource, node, rules.gpuResources);
    if (device === undefined) continue;
    const gpus = { device, devices, units: BigInt(devices) * device.units };
    const asDevices = BigInt(devices) * UNITS_PER_GPU;
    allocated.push(quantity === 'devices' ? { ...gpus, asDevices } : gpus);
  }
  // On private nodes the reservation pod is the tenant's too, and covers the parts.
  if (allocated.length > 0 || rules.privateNodes === true || pod.gpuShares === undefined)
    return allocated;
  const part = fractionGpus(pod.gpuShares, node, quantity);
  return part === undefined ? allocated : [part];
}

/** Returns the node's device of a resource. An unknown node has only the resource's name. */
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
 * Charges GPU hours of resource claims (docs/explanation/gpus.md#resource-claims).
 * 1. A claim's devices are charged once while any pod runs that it is reserved for.
 * 2. With `podLifetime: scheduled` they are charged from the allocation on.
 * 3. Downtime and complete nodes are as for GPUs of device plugins.
 */
export const meterClaimedGpus: Meter = function* (input) {
  const { observation, settings } = input;
  const { draGpuDrivers: drivers } = settings;
  const catalogue = new DeviceCatalogue(observation.resourceSlices);
  const nodeAt = nodesByName(input);
  const charge = createGpuCharges(input);
  /** The node of the claim's GPUs; undefined when it has none. */
  const nodeOf = ({ node, allocation }: ClaimUse): string | undefined => {
    const gpu = allocation.devices.find(({ driver }) => drivers.includes(driver));
    // Drivers name the pool after the node that its devices belong to.
    return gpu && (node ?? gpu.pool);
  };
  yield* visitWindowSpans(
    input,
    claimUses(observation),
    (span) => {
      const { state, cluster, timeline } = span;
      const { podLifetime, gpuQuantity } = cluster.metering;
      if (state.phase === 'idle' && podLifetime === 'running') return;
      if (isExcludedNamespace(input, cluster, timeline.namespace)) return;
      const nodeName = nodeOf(state);
      if (nodeName === undefined) return;
      const claim = { labels: state.labels, node: nodeName };
      const holder = { ...span, kind: 'ResourceClaim', state: claim, nodeName } as const;
      for (const stretch of nodeAt(nodeName, span.from, span.to, span.asBilled)) {
        const published = (device: AllocatedDevice) => catalogue.find(device, stretch.from);
        for (const gpus of claimedGpus(state, stretch.state, drivers, published, gpuQuantity)) {
          charge(holder, stretch, gpus);
        }
      }
    },
    onLateNodes(input, nodeOf),
  );
};
