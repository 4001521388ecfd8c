import type { NodeGpus } from '../observation/gpu-device.ts';
import type { NodeState } from '../observation/node-state.ts';

/**
 * The GPUs of a node by model: what its plugins and labels say, with what resource slices offer. A
 * node whose GPUs are served by claims has a count label and nothing allocatable, so that what
 * slices offer is not missing (design 7, Downtime).
 */
export function nodeGpus(state: NodeState, offered: readonly NodeGpus[]): readonly NodeGpus[] {
  if (offered.length === 0) return state.gpus;
  const types = new Set([...state.gpus, ...offered].map(({ type }) => type));
  return [...types].map((type) => {
    const plugged = state.gpus.find((gpus) => gpus.type === type);
    const sliced = offered.find((gpus) => gpus.type === type);
    if (plugged === undefined || sliced === undefined) return plugged ?? sliced ?? nothing(type);
    return both(plugged, sliced);
  });
}

/** The label counts what plugins and slices offer together. */
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

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function nothing(type: string): NodeGpus {
  return { type, installed: 0n, missing: 0n, devices: 0 };
}
