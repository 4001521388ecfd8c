import { larger } from '../../model/decimal.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import type { NodeGpus } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import { DeviceCatalogue, type PublishedGpu } from './device-catalogue.ts';
import { modelOnNode } from './dra-devices.ts';
import type { MeterInput } from './meter.ts';

/**
 * Returns the GPUs that a node offers through Dynamic Resource Allocation
 * (docs/explanation/gpus.md#resource-claims), in stretches without holes. The node's state names
 * the models. {@link meterClaimedGpus} charges them: claims have their own times and several pods
 * may share one, so a pod's requests do not include them.
 */
export function draGpusOf({ observation, settings, diagnostics }: MeterInput) {
  const catalogue = new DeviceCatalogue(observation.resourceSlices);
  return (nodeName: string, node: NodeState | undefined, from: number, to: number) => {
    const stretches = catalogue.on(nodeName, settings.draGpuDrivers, from, to);
    const omitted = catalogue.omitted.get(nodeName);
    if (omitted !== undefined) diagnostics.omittedSlices.set(nodeName, omitted);
    return stretches.map((stretch) => ({
      from: stretch.from,
      to: stretch.to,
      gpus: byModel(stretch.gpus, node),
    }));
  };
}

/**
 * Sums GPUs by model, whatever their partitions; devices of one GPU count once. GPUs that a driver
 * has tainted are missing, like those that a plugin reports as unhealthy.
 */
function byModel(gpus: readonly PublishedGpu[], node: NodeState | undefined): readonly NodeGpus[] {
  const models = Map.groupBy(gpus, ({ driver, device }) => modelOnNode(node, driver, device));
  return [...models].map(([type, own]) => ({
    type,
    devices: own.length,
    installed: BigInt(own.length) * UNITS_PER_GPU,
    missing: BigInt(own.filter(({ device }) => device.lost).length) * UNITS_PER_GPU,
  }));
}

/**
 * Returns the GPUs of a node by model: those of plugins and labels, and those that resource slices
 * offer (docs/explanation/nodes.md#downtime). A node whose GPUs are served by claims has a count
 * label and nothing allocatable, so GPUs that slices offer are not missing.
 */
export function nodeGpus(state: NodeState, offered: readonly NodeGpus[]): readonly NodeGpus[] {
  const gpus = withSlices(state, offered);
  // The tenant's API is not trusted about missing GPUs.
  return state.trust === 'provider' ? gpus.map((one) => ({ ...one, missing: 0n })) : gpus;
}

function withSlices(state: NodeState, offered: readonly NodeGpus[]): readonly NodeGpus[] {
  if (offered.length === 0) return state.gpus;
  const plugged = new Set(state.gpus.map(({ type }) => type));
  const bySlice = new Map(offered.map((gpus) => [gpus.type, gpus]));
  const together = state.gpus.map((gpus) => {
    const sliced = bySlice.get(gpus.type);
    return sliced === undefined ? gpus : both(gpus, sliced);
  });
  return [...together, ...offered.filter(({ type }) => !plugged.has(type))];
}

/** Joins both. The label counts the GPUs of plugins and slices together. */
function both(plugged: NodeGpus, sliced: NodeGpus): NodeGpus {
  const usable = plugged.installed - plugged.missing;
  const installed = larger(plugged.installed, usable + sliced.installed);
  const missing = installed - usable - (sliced.installed - sliced.missing);
  return {
    type: plugged.type,
    installed,
    missing: missing > 0n ? missing : 0n,
    devices: plugged.devices + sliced.devices,
  };
}
