import type { RawObject } from '../../../kubernetes/source.ts';
import { node, LONG_AGO, iso } from './objects.ts';

/**
 * GPU nodes as feature discovery, device plugins and clouds describe them; each name is that of the
 * case tables.
 */

export const H100 = 'NVIDIA-H100-80GB-HBM3';
export const A10G = 'NVIDIA-A10G';

export interface NodeFixture {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly capacity?: Readonly<Record<string, string>>;
  /** Differences from the capacity; null removes a name. */
  readonly allocatable?: Readonly<Record<string, string | null>>;
  readonly taints?: readonly RawObject[];
  readonly conditions?: readonly RawObject[];
}

const ON_DEMAND = { 'karpenter.sh/capacity-type': 'on-demand' };

/** A Ready node without taints that exists since long ago. */
export function gpuNode(fixture: NodeFixture): RawObject {
  const { name = 'n1', labels = {}, capacity = {}, allocatable = {}, taints = [] } = fixture;
  const ready = { type: 'Ready', status: 'True', lastTransitionTime: iso(LONG_AGO) };
  const merged = Object.entries({ ...capacity, ...allocatable }).filter(([, v]) => v !== null);
  return {
    ...node(name, { ...ON_DEMAND, ...labels }),
    spec: { taints },
    status: {
      capacity,
      allocatable: Object.fromEntries(merged),
      conditions: fixture.conditions ?? [ready],
    },
  };
}

/** Labels under `nvidia.com/`, and the instance type. */
function nvidia(
  labels: Readonly<Record<string, string>>,
  instanceType?: string,
): Readonly<Record<string, string>> {
  const own = Object.entries(labels).map(([key, value]) => [`nvidia.com/${key}`, value]);
  return {
    ...Object.fromEntries(own),
    ...(instanceType === undefined ? {} : { 'node.kubernetes.io/instance-type': instanceType }),
  };
}

/** Eight full H100. */
export const N1: NodeFixture = {
  labels: nvidia(
    { 'gpu.product': H100, 'gpu.count': '8', 'gpu.replicas': '1', 'gpu.sharing-strategy': 'none' },
    'p5.48xlarge',
  ),
  capacity: { cpu: '192', memory: '2Ti', 'nvidia.com/gpu': '8' },
};

/** Four A10G, time-sliced by four, not renamed. */
export const N2: NodeFixture = {
  name: 'n2',
  labels: nvidia({
    'gpu.product': `${A10G}-SHARED`,
    'gpu.count': '4',
    'gpu.replicas': '4',
    'gpu.sharing-strategy': 'time-slicing',
  }),
  capacity: { 'nvidia.com/gpu': '16' },
};

/** The same, renamed. */
export const N3: NodeFixture = {
  name: 'n3',
  labels: nvidia({
    'gpu.product': A10G,
    'gpu.count': '4',
    'gpu.replicas': '4',
    'gpu.sharing-strategy': 'time-slicing',
  }),
  capacity: { 'nvidia.com/gpu.shared': '16', 'nvidia.com/gpu': '0' },
};

/** Eight H100 in sevenths, MIG strategy mixed. */
export const N4: NodeFixture = {
  name: 'n4',
  labels: nvidia({
    'gpu.product': H100,
    'gpu.count': '8',
    'gpu.replicas': '0',
    'mig.strategy': 'mixed',
    'mig-1g.10gb.count': '56',
  }),
  capacity: { 'nvidia.com/mig-1g.10gb': '56', 'nvidia.com/gpu': '0' },
};

/** The same under the strategy single. */
export const N5: NodeFixture = {
  name: 'n5',
  labels: nvidia({
    'gpu.product': `${H100}-MIG-1g.10gb`,
    'gpu.count': '56',
    'gpu.replicas': '1',
    'mig.strategy': 'single',
  }),
  capacity: { 'nvidia.com/gpu': '56' },
};

/** Eight MI300X. */
export const N6: NodeFixture = {
  name: 'n6',
  labels: {
    'amd.com/gpu.product-name': 'AMD_Instinct_MI300X_OAM',
    'node.kubernetes.io/instance-type': 'mi300x-8',
  },
  capacity: { 'amd.com/gpu': '8' },
};

/** No GPU. */
export const N7: NodeFixture = {
  name: 'n7',
  labels: { 'node.kubernetes.io/instance-type': 'm6i.2xlarge' },
  capacity: { cpu: '8', memory: '32Gi' },
};

/** The fixture with labels and resources added; null removes a label. */
export function variant(
  base: NodeFixture,
  changes: {
    readonly name?: string;
    readonly labels?: Readonly<Record<string, string | null>>;
    readonly capacity?: Readonly<Record<string, string | null>>;
  } & Pick<NodeFixture, 'allocatable' | 'taints' | 'conditions'>,
): NodeFixture {
  const without = (
    before: Readonly<Record<string, string>> = {},
    after: Readonly<Record<string, string | null>> = {},
  ): Readonly<Record<string, string>> =>
    Object.fromEntries(
      Object.entries({ ...before, ...after }).flatMap(([key, value]) =>
        value === null ? [] : [[key, value]],
      ),
    );
  return {
    ...base,
    ...changes,
    labels: without(base.labels, changes.labels),
    capacity: without(base.capacity, changes.capacity),
  };
}
