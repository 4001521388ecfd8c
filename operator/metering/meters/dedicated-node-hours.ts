import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { FULL, type NodeGpus } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import { type Span, type Timeline, uncertainOf } from '../timelines/timeline.ts';
import { gpusOf, UNITS_PER_GPU } from '../../model/gpu-units.ts';
import type { CollectorMetric } from '../../model/catalog.ts';
import { chargeIdentity, type IdentityParts } from './charge-identity.ts';
import { createOwners } from './node-owners.ts';
import { draGpusOf, nodeGpus } from './gpu-stock.ts';
import { addTo, type Charge, type Evidence } from './tally.ts';
import { gpuSku, NANOS, NOT_ALLOCATABLE, UNHEALTHY } from './gpu-charges.ts';
import { noteGpuUse } from './meter-reports.ts';
import { chargeOf, type Meter, type MeterInput } from './meter.ts';

/** A stretch of time in which one tenant cluster is billed the complete node. */
export interface CompleteNode {
  readonly name: string;
  readonly uid?: string;
  readonly state: NodeState;
  /** Includes what resource slices offer. */
  readonly gpus: readonly NodeGpus[];
  readonly cluster: TenantCluster;
  readonly mode: 'dedicated_node' | 'private_node';
  readonly from: number;
  readonly to: number;
  readonly carried: boolean;
  readonly weight: 1 | -1;
  /** How far off its beginning or end may be where nobody observed it; milliseconds. */
  readonly uncertain: number;
}

/**
 * Charges complete nodes (docs/explanation/nodes.md#whole-nodes): nodes of the host cluster that
 * are dedicated to one tenant cluster, and private nodes with PRIVATE_NODE_BILLING `node`.
 */
export const meterCompleteNodes: Meter = function* (input) {
  const { window, meteredFrom, observation, diagnostics } = input;
  const owners = createOwners(input);
  const offeredOn = draGpusOf(input);
  const mode = input.privateNodes === true ? 'private_node' : 'dedicated_node';

  const visit = (
    { uid, name }: Pick<Timeline<NodeState>, 'uid' | 'name'>,
    spans: readonly Span<NodeState>[],
    from: number,
    to: number,
    pass: { readonly carried: boolean; readonly weight: 1 | -1; readonly clusterId?: string },
  ): void => {
    for (const span of spans) {
      const start = Math.max(from, span.from);
      const end = Math.min(to, span.to);
      if (end <= start) continue;
      const { state } = span;
      for (const owned of owners(state, start, end)) {
        const { owner: cluster, rivals } = owned;
        if (rivals.length > 0)
          diagnostics.contested.set(
            name,
            rivals.map(({ id }) => id),
          );
        if (cluster === undefined || cluster.excluded) continue;
        if (pass.clusterId !== undefined && pass.clusterId !== cluster.id) continue;
        for (const offered of offeredOn(name, state, owned.from, owned.to)) {
          const gpus = nodeGpus(state, offered.gpus);
          const bounds = { from: offered.from, to: offered.to };
          chargeCompleteNode(input, {
            name,
            uid,
            state,
            gpus,
            cluster,
            mode,
            ...bounds,
            ...pass,
            uncertain: uncertainOf(span, bounds.from, bounds.to),
          });
        }
      }
    }
  };

  const { nodes, tenantClusters } = observation;
  for (const node of nodes.inNamespace('')) {
    visit(node, node.spans, window.start, window.end, { carried: false, weight: 1 });
    yield;
  }
  if (meteredFrom >= window.start) return;
  for (const node of nodes.late()) {
    const { spans, billed = spans } = node;
    visit(node, billed, meteredFrom, window.start, { carried: true, weight: -1 });
    visit(node, spans, meteredFrom, window.start, { carried: true, weight: 1 });
    yield;
  }
  for (const { cluster, from } of tenantClusters.learntAfter(input.learntUntil)) {
    if (from >= window.start) continue;
    for (const node of nodes.inNamespace('')) {
      const pass = { carried: true, weight: 1, clusterId: cluster.id } as const;
      visit(node, node.billed ?? node.spans, Math.max(from, meteredFrom), window.start, pass);
      yield;
    }
  }
};

/**
 * Charges node hours, CPU and memory capacity, and physical GPUs
 * (docs/explanation/nodes.md#downtime).
 * 1. While the node is down nothing is billed, and its GPUs are downtime.
 * 2. On a node that is up, GPUs that cannot be allocated are downtime.
 */
function chargeCompleteNode(input: MeterInput, node: CompleteNode): void {
  const { state, gpus } = node;
  const usage = usageOf(node);
  const down = state.down;
  for (const gpu of gpus) {
    const missing = down ? gpu.installed : gpu.missing;
    chargeGpus(input, node, gpu, gpu.installed - missing);
    chargeDowntime(input, node, gpu, missing, down ? UNHEALTHY : NOT_ALLOCATABLE);
  }
  if (down) return;
  const { instanceType } = state;
  const hours = completeNodeCharge(input, node, 'tenant_private_node_hours', {
    sku: nodeSku(state, gpus),
    dimensions: instanceType === undefined ? {} : { instance_type: instanceType },
  });
  const evidence = evidenceOf(input, node);
  addTo(hours, usage, NANOS, evidence);
  const cpu = completeNodeCharge(input, node, 'tenant_cpu_core_hours');
  addTo(cpu, usage, state.cpu, evidence);
  const memory = completeNodeCharge(input, node, 'tenant_memory_gb_hours');
  addTo(memory, usage, state.memory, evidence);
}

function usageOf({ carried, weight, from, to, uncertain }: CompleteNode) {
  return { carried, weight, ms: to - from, uncertain };
}

function evidenceOf(
  { window: { start } }: MeterInput,
  node: CompleteNode,
  gpu?: NodeGpus,
  units = 0n,
): Evidence {
  const { name, uid = '', state, carried } = node;
  const evidence = {
    kind: 'Node',
    object: { uid, namespace: '', name },
    state: { node: name },
    node: state,
    from: node.from - start,
    to: node.to - start,
    carried,
  } as const;
  if (gpu === undefined) return evidence;
  const device = { type: gpu.type, profile: FULL, units: UNITS_PER_GPU };
  return { ...evidence, gpus: { device, devices: gpu.devices, units } };
}

/** SKU_LABEL, else the instance type, else the GPUs in it. */
function nodeSku(state: NodeState, gpus: readonly NodeGpus[]): string {
  const named = state.sku ?? state.instanceType;
  if (named !== undefined) return named;
  const units = gpus.map(({ type, installed }) => `${Math.round(gpusOf(installed))}x${type}`);
  return units.length === 0 ? 'cpu-node' : units.join('+');
}

function chargeGpus(input: MeterInput, node: CompleteNode, gpu: NodeGpus, units: bigint): void {
  if (units <= 0n) return;
  const charge = completeNodeCharge(input, node, 'tenant_gpu_hours', {
    sku: gpuSku({ type: gpu.type, profile: FULL }, node.state),
    dimensions: { gpu_type: gpu.type, gpu_profile: FULL },
  });
  charge.properties['gpu_devices'] = gpu.devices;
  charge.properties['physical_gpus'] = Math.round(gpusOf(gpu.installed));
  addTo(charge, usageOf(node), units * NANOS, evidenceOf(input, node, gpu, units));
  note(input, node, gpu, 'billed', units);
}

function chargeDowntime(
  input: MeterInput,
  node: CompleteNode,
  gpu: NodeGpus,
  units: bigint,
  reason: string,
): void {
  if (units <= 0n) return;
  const identity = chargeIdentity(node.cluster, 'tenant_gpu_downtime_hours', input.settings, {
    sku: gpuSku({ type: gpu.type, profile: FULL }, node.state),
    node: node.state,
    resourceId: node.name,
    dimensions: { gpu_type: gpu.type, node: node.name },
  });
  const charge = chargeOf(input, identity, node.state);
  noteReason(charge, reason);
  addTo(charge, usageOf(node), units * NANOS, evidenceOf(input, node, gpu, units));
  note(input, node, gpu, 'downtime', units);
}

/** Adds a reason; a window can have both. */
function noteReason(charge: Charge, reason: string): void {
  const before = charge.properties['reason'];
  const reasons = typeof before === 'string' ? before.split('; ') : [];
  charge.properties['reason'] = [...new Set([...reasons, reason])].toSorted().join('; ');
}

function note(
  input: MeterInput,
  node: CompleteNode,
  gpu: NodeGpus,
  kind: 'billed' | 'downtime',
  units: bigint,
): void {
  const amount = units * BigInt(node.weight * (node.to - node.from));
  noteGpuUse(input.diagnostics, {
    node: node.name,
    type: gpu.type,
    kind,
    carried: node.carried,
    amount,
  });
}

function completeNodeCharge(
  input: MeterInput,
  node: CompleteNode,
  metric: CollectorMetric,
  units: Pick<IdentityParts, 'sku' | 'dimensions'> = {},
): Charge {
  const identity = chargeIdentity(node.cluster, metric, input.settings, {
    ...units,
    node: node.state,
    resourceId: node.name,
    dimensions: {
      billing_mode: node.mode,
      capacity_type: node.state.capacityType,
      node: node.name,
      ...units.dimensions,
    },
  });
  return chargeOf(input, identity, node.state);
}
