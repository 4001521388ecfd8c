import type { MeteringSettings } from '../../settings/settings.ts';
import {
  type CapacityType,
  type CapacityTypeDecision,
  decideCapacityType,
} from './capacity-type.ts';
import type { GpuDevice, NodeGpus } from './gpu-device.ts';
import type { HamiDevice } from './hami-node.ts';
import { hamiOf, installedGpus } from './installed-gpus.ts';
import { gpuDevicesOf } from './node-devices.ts';
import type { NodeView } from './node.ts';
import { textAt } from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, createSharedValues } from './shared-values.ts';

/** The settings that interpret a node's labels, taints and resources. */
export type NodeSettings = Pick<
  MeteringSettings,
  'capacityTypeLabel' | 'skuLabel' | 'gpuResources' | 'unhealthyNodeTaints' | 'dedicatedNodeLabel'
>;

/** True when both interpret nodes alike. */
export function sameNodeSettings(a: NodeSettings, b: NodeSettings): boolean {
  return (
    a.capacityTypeLabel === b.capacityTypeLabel &&
    a.skuLabel === b.skuLabel &&
    a.dedicatedNodeLabel === b.dedicatedNodeLabel &&
    String(a.gpuResources) === String(b.gpuResources) &&
    String(a.unhealthyNodeTaints) === String(b.unhealthyNodeTaints)
  );
}

/** A node's billing state during a span: what its pods inherit, and what it costs itself. */
export interface NodeState {
  readonly capacityType: CapacityType;
  /** From the node's own labels only; ZONE and REGION are filled in when metering. */
  readonly zone?: string;
  readonly region?: string;
  readonly instanceType?: string;
  /** Value of the label that SKU_LABEL names. */
  readonly sku?: string;
  /** Capacity in nanocores and nano-bytes. */
  readonly cpu: bigint;
  readonly memory: bigint;
  /** GPU model in the labels, `unknown` without one. */
  readonly gpuType: string;
  /** The device of each of its GPU resources, by resource name. */
  readonly devices: ReadonlyMap<string, GpuDevice>;
  /** MiB of one of its GPUs; absent where no label has it. */
  readonly gpuMemory?: number;
  /** GPUs that HAMi allocates, each with the model that counts; absent if it does not serve it. */
  readonly hami?: readonly HamiDevice[];
  /** Its GPUs by model. */
  readonly gpus: readonly NodeGpus[];
  /** It carries a taint of UNHEALTHY_NODE_TAINTS (docs/explanation/nodes.md#downtime). */
  readonly down: boolean;
  /** Labels that dedicate a node to a tenant cluster (docs/explanation/nodes.md#whole-nodes). */
  readonly dedicatedTo: DedicatedLabels;
  /**
   * A tenant cluster's API shows it, but it is a node of the host cluster and billed there
   * (docs/explanation/nodes.md#what-counts-as-a-private-node).
   */
  readonly foreign?: true;
  /**
   * `privateNodeTrust` is `provider`: the state is the provider's, and the dearest reading
   * where he states nothing (docs/explanation/nodes.md#whom-to-trust-about-nodes).
   */
  readonly trust?: 'provider';
  /** The provider's source that confirms it: `Machine fleet/worker-0`, or `privateNodeLabels`. */
  readonly provenBy?: string;
  /** The labels that decided these fields. */
  readonly decidedBy?: NodeDecisions;
}

export interface DedicatedLabels {
  /** `vcluster.loft.sh/managed-by` and `vcluster.loft.sh/cluster`. */
  readonly namespaceOrName: readonly string[];
  /** The label that VCLUSTER_NODE_LABEL names. */
  readonly configured?: string;
}

const ZONE_LABELS = ['topology.kubernetes.io/zone', 'failure-domain.beta.kubernetes.io/zone'];
const REGION_LABELS = ['topology.kubernetes.io/region', 'failure-domain.beta.kubernetes.io/region'];
const INSTANCE_TYPE_LABELS = [
  'node.kubernetes.io/instance-type',
  'beta.kubernetes.io/instance-type',
];
const DEDICATED_LABELS = ['vcluster.loft.sh/managed-by', 'vcluster.loft.sh/cluster'];

const sharedStates = createSharedValues<NodeState>();

/** The last state that was read from a view of a node, with its settings. */
interface Read {
  readonly settings: NodeSettings;
  readonly api: Api;
  readonly state: NodeState;
}

/** Caches states: a statement of the provider about one node evaluates all nodes again. */
const reads = new WeakMap<NodeView, Read>();

/** Returns the state of a node under the settings in force; equal states are one shared value. */
export function nodeState(
  node: NodeView,
  settings: NodeSettings,
  api: Api = API_OF_HOST,
): NodeState {
  const last = reads.get(node);
  if (last?.settings === settings && last.api === api) return last.state;
  const state = readNode(node, settings, api);
  reads.set(node, { settings, api, state });
  return state;
}

function readNode(node: NodeView, settings: NodeSettings, api: Api): NodeState {
  const { labels } = node;
  const named = gpuDevicesOf(node, settings.gpuResources);
  const hami = hamiOf(node, named);
  const { skuLabel, dedicatedNodeLabel } = settings;
  const [configuredLabel] = dedicatedNodeLabel?.split('=') ?? [];
  const capacityType = decideCapacityType(labels, settings.capacityTypeLabel);
  const values = DEDICATED_LABELS.flatMap((label) => textAt(labels, label) ?? []);
  const state: NodeState = {
    capacityType: capacityType.type,
    zone: firstOf(labels, ZONE_LABELS),
    region: firstOf(labels, REGION_LABELS),
    instanceType: firstOf(labels, INSTANCE_TYPE_LABELS),
    sku: skuLabel === undefined ? undefined : textAt(labels, skuLabel),
    cpu: node.cpu,
    memory: node.memory,
    gpuType: named.type,
    devices: named.devices,
    hami,
    gpuMemory: memoryOf(labels),
    gpus: installedGpus(node, named, hami),
    down: node.taints.some(({ key }) => settings.unhealthyNodeTaints.includes(key)),
    dedicatedTo: {
      namespaceOrName: [...new Set(values)].toSorted(),
      configured: configuredLabel === undefined ? undefined : textAt(labels, configuredLabel),
    },
    decidedBy: nodeDecisions(node, {
      capacityType,
      zone: ZONE_LABELS,
      region: REGION_LABELS,
      instanceType: INSTANCE_TYPE_LABELS,
      sku: skuLabel === undefined ? [] : [skuLabel],
      dedicated: [...(configuredLabel === undefined ? [] : [configuredLabel]), ...DEDICATED_LABELS],
    }),
  };
  return shareNodeState(state, api);
}

/** Reads the label of NVIDIA's feature discovery. */
function memoryOf(labels: NodeView['labels']): number | undefined {
  const mib = Number(textAt(labels, 'nvidia.com/gpu.memory'));
  return Number.isSafeInteger(mib) && mib > 0 ? mib : undefined;
}

/** Returns the shared value of an API with these fields. */
export function shareNodeState(state: NodeState, api: Api): NodeState {
  return sharedStates(api, [stateKey(state)], () => state);
}

/** True when both are billed alike, whether or not they are the same object. */
export function sameNodeState(a: NodeState, b: NodeState): boolean {
  return a === b || stateKey(a) === stateKey(b);
}

function stateKey(state: NodeState): string {
  return JSON.stringify({ ...state, devices: [...state.devices] }, (_key, part: unknown) =>
    typeof part === 'bigint' ? String(part) : part,
  );
}

/** Returns the value of the first of these labels that the node has. */
export function firstOf(labels: NodeView['labels'], names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = textAt(labels, name);
    if (value !== undefined) return value;
  }
  return undefined;
}

/**
 * The labels that decided a node's fields, `label=value` each; absent where none did. They only
 * serve explanations and change no number.
 */
export interface NodeDecisions {
  readonly capacityType?: string;
  readonly zone?: string;
  readonly region?: string;
  readonly instanceType?: string;
  readonly sku?: string;
  /** All labels about GPU models, partitions and sharing. */
  readonly gpu?: readonly string[];
  readonly dedicated?: readonly string[];
}

export interface DecidingLabels {
  readonly capacityType: CapacityTypeDecision;
  readonly zone: readonly string[];
  readonly region: readonly string[];
  readonly instanceType: readonly string[];
  readonly sku: readonly string[];
  readonly dedicated: readonly string[];
}

const GPU_LABEL =
  /^((beta\.)?amd\.com\/gpu\.(product-name|compute-memory-partition)|nvidia\.com\/(gpu\.(product|machine|count|replicas|sharing-strategy)|mig\.strategy|mig-.+\.(count|replicas|sharing-strategy))|accelerator|cloud\.google\.com\/gke-(accelerator|gpu-.+|max-shared-clients-per-gpu)|k8s\.amazonaws\.com\/accelerator)$/;

/** Three labels for each kind of MIG device, of 64 kinds. */
const MOST_GPU_LABELS = 192;

/** Returns the labels that decided a node's fields. */
export function nodeDecisions({ labels }: NodeView, by: DecidingLabels): NodeDecisions {
  const stated = (label: string): readonly string[] => {
    const value = textAt(labels, label);
    return value === undefined ? [] : [`${label}=${value}`];
  };
  const first = (names: readonly string[]): string | undefined => names.flatMap(stated)[0];
  const gpu = Object.keys(labels)
    .filter((label) => GPU_LABEL.test(label))
    .toSorted()
    .slice(0, MOST_GPU_LABELS)
    .flatMap(stated);
  const dedicated = by.dedicated.flatMap(stated);
  const { label } = by.capacityType;
  return {
    capacityType: label === undefined ? undefined : first([label]),
    zone: first(by.zone),
    region: first(by.region),
    instanceType: first(by.instanceType),
    sku: first(by.sku),
    gpu: gpu.length === 0 ? undefined : gpu,
    dedicated: dedicated.length === 0 ? undefined : dedicated,
  };
}
