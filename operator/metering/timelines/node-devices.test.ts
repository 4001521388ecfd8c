import { describe, expect, test } from 'vitest';
import {
  A10G,
  gpuNode,
  H100,
  N1,
  N2,
  N3,
  N4,
  N5,
  N6,
  variant,
} from '../meters/testing/gpu-nodes.ts';
import type { NodeFixture } from '../meters/testing/gpu-nodes.ts';
import { NODE_SETTINGS } from '../meters/testing/objects.ts';
import { gpusOf } from '../../model/gpu-units.ts';
import { projectNode } from './node.ts';
import { type NodeState, nodeState } from './node-state.ts';

function stateOf(fixture: NodeFixture): NodeState {
  const view = projectNode(gpuNode(fixture));
  if (view === undefined) throw new Error('fixture without uid or name');
  return nodeState(view, NODE_SETTINGS);
}

function installed(fixture: NodeFixture) {
  return stateOf(fixture).gpus.map((gpus) => [
    gpus.type,
    gpusOf(gpus.installed),
    gpusOf(gpus.missing),
    gpus.devices,
  ]);
}

function device(fixture: NodeFixture, resource: string) {
  const found = stateOf(fixture).devices.get(resource);
  return found && [found.type, found.profile, Math.round(gpusOf(found.units) * 1e6) / 1e6];
}

describe('a node has the GPUs that stand in it, whatever way they are cut', () => {
  test.each<[string, NodeFixture, unknown[]]>([
    ['whole', N1, [[H100, 8, 0, 8]]],
    ['time-sliced', N2, [[A10G, 4, 0, 16]]],
    ['time-sliced and renamed', N3, [[A10G, 4, 0, 16]]],
    ['MIG mixed', N4, [[H100, 8, 0, 56]]],
    ['MIG single', N5, [[H100, 8, 0, 56]]],
    [
      'MIG single of three slices, of which two fit a GPU',
      variant(N5, {
        labels: { 'nvidia.com/gpu.product': `${H100}-MIG-3g.40gb`, 'nvidia.com/gpu.count': '16' },
        capacity: { 'nvidia.com/gpu': '16' },
      }),
      [[H100, 8, 0, 16]],
    ],
    [
      'A30 in quarters',
      variant(N5, {
        labels: {
          'nvidia.com/gpu.product': 'NVIDIA-A30-MIG-1g.6gb',
          'nvidia.com/gpu.count': '8',
        },
        capacity: { 'nvidia.com/gpu': '8' },
      }),
      [['NVIDIA-A30', 2, 0, 8]],
    ],
    [
      'MIG in a state that cannot be',
      variant(N5, {
        labels: { 'nvidia.com/gpu.product': `${H100}-MIG-INVALID`, 'nvidia.com/gpu.count': '0' },
        capacity: { 'nvidia.com/gpu': null },
      }),
      [],
    ],
    ['AMD', N6, [['AMD_Instinct_MI300X_OAM', 8, 0, 8]]],
    [
      'no plugin has registered',
      variant(N1, { capacity: { 'nvidia.com/gpu': null } }),
      [[H100, 8, 8, 0]],
    ],
    ['the plugin died', variant(N1, { allocatable: { 'nvidia.com/gpu': '0' } }), [[H100, 8, 8, 8]]],
    ['one GPU is lost', variant(N1, { allocatable: { 'nvidia.com/gpu': '7' } }), [[H100, 8, 1, 8]]],
    [
      'AMD without any count',
      variant(N6, { allocatable: { 'amd.com/gpu': '0' } }),
      [['AMD_Instinct_MI300X_OAM', 8, 8, 8]],
    ],
  ])('%s', (_name, fixture, want) => {
    expect(installed(fixture)).toEqual(want);
  });
});

describe('a device is a share of a GPU under a name that a price can be given', () => {
  test.each<[string, NodeFixture, string, unknown]>([
    ['full', N1, 'nvidia.com/gpu', [H100, 'full', 1]],
    ['time-sliced', N2, 'nvidia.com/gpu', [A10G, 'timeslice-4', 0.25]],
    ['renamed', N3, 'nvidia.com/gpu.shared', [A10G, 'timeslice-4', 0.25]],
    [
      'GKE time-sharing',
      {
        labels: {
          'cloud.google.com/gke-accelerator': 'nvidia-l4',
          'cloud.google.com/gke-gpu-sharing-strategy': 'time-sharing',
          'cloud.google.com/gke-max-shared-clients-per-gpu': '3',
        },
        capacity: { 'nvidia.com/gpu': '3' },
      },
      'nvidia.com/gpu',
      ['nvidia-l4', 'timeslice-3', 0.333333],
    ],
    [
      'GKE partition',
      {
        labels: {
          'cloud.google.com/gke-accelerator': 'nvidia-h100-80gb',
          'cloud.google.com/gke-gpu-partition-size': '1g.10gb',
        },
        capacity: { 'nvidia.com/gpu': '7' },
      },
      'nvidia.com/gpu',
      ['nvidia-h100-80gb', 'mig-1g.10gb', 0.142857],
    ],
    [
      'MIG single and time-sliced',
      variant(N5, {
        labels: {
          'nvidia.com/gpu.product': `${H100}-MIG-1g.10gb-SHARED`,
          'nvidia.com/gpu.replicas': '2',
          'nvidia.com/gpu.sharing-strategy': 'time-slicing',
        },
      }),
      'nvidia.com/gpu',
      [H100, 'mig-1g.10gb-timeslice-2', 0.071429],
    ],
    [
      'AMD single strategy on a partitioned node',
      variant(N6, { labels: { 'amd.com/gpu.compute-memory-partition': 'cpx_nps4' } }),
      'amd.com/gpu',
      ['AMD_Instinct_MI300X_OAM', 'cpx_nps4', 0.125],
    ],
    ['a resource that is no GPU', N1, 'example.com/fpga', undefined],
  ])('%s', (_name, fixture, resource, want) => {
    expect(device(fixture, resource)).toEqual(want);
  });
});
