import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { FULL, type GpuDevice, type AllocatedGpus } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import { keyOf } from '../timelines/shared-values.ts';
import { billedSplit, chargeIdentity, type Split } from './charge-identity.ts';
import { addTo, type Charge, count, type Evidence, type EvidentState } from './tally.ts';
import { noteGpuUse } from './meter-reports.ts';
import { chargeOf, isBilledHere, type MeterInput, podBillingMode } from './meter.ts';
import type { NodeStretch } from './node-owners.ts';
import type { WindowSpan } from './window-spans.ts';

/** Reasons of downtime, as in the event property `reason` (docs/explanation/nodes.md#downtime). */
export const UNHEALTHY = 'node not ready or unhealthy';
export const NOT_ALLOCATABLE = 'GPUs installed but not allocatable';

/** The pod or claim that GPUs are allocated to, and its node. The node's stretch has the times. */
interface GpuHolder
  extends Pick<
    WindowSpan<EvidentState & { readonly labels: ObjectLabels }>,
    'timeline' | 'state' | 'cluster' | 'carried' | 'weight' | 'mapped' | 'uncertain'
  > {
  readonly kind: 'Pod' | 'ResourceClaim';
  readonly nodeName: string;
}

export const NANOS = 1_000_000_000n;

/**
 * Charges GPUs of pods and claims (docs/explanation/nodes.md#whole-nodes).
 * 1. GPU hours while the node is up, downtime while it is down.
 * 2. Nothing on a node that is dedicated to their own tenant cluster: the node's charge covers
 *    them.
 * 3. On a node that is dedicated to another tenant cluster they are billed as shared, and reported
 *    as overlap.
 */
export function createGpuCharges(input: MeterInput) {
  const counted = new Map<Charge, Set<string>>();
  const find = createChargeCache(input);
  return (holder: GpuHolder, stretch: NodeStretch, gpus: AllocatedGpus): void => {
    const { cluster, carried, weight, uncertain } = holder;
    const { state, owner, from, to } = stretch;
    if (owner?.id === cluster.id || gpus.units === 0n) return;
    if (!isBilledHere(input, state)) return;
    const down = state?.down === true;
    const charge = find(holder, state, gpus.device);
    const ms = to - from;
    const evidence = evidenceOf(holder, stretch, gpus, input.window.start);
    addTo(
      charge,
      { carried, weight, ms, uncertain },
      (gpus.asDevices ?? gpus.units) * NANOS,
      evidence,
    );
    noteGpuUse(input.diagnostics, {
      node: holder.nodeName,
      type: gpus.device.type,
      kind: useKind(down, owner !== undefined && !owner.excluded),
      carried,
      amount: gpus.units * BigInt(weight * ms),
    });
    if (carried) return;
    const objects = counted.get(charge) ?? new Set();
    counted.set(charge, objects);
    // A uid is counted once, however often its state changes.
    if (!down) countOnce(charge, objects, holder.timeline.uid, gpus);
  };
}

function evidenceOf(
  { kind, timeline: object, state, carried, mapped }: GpuHolder,
  stretch: NodeStretch,
  gpus: AllocatedGpus,
  start: number,
): Evidence {
  const [from, to] = [stretch.from - start, stretch.to - start];
  return { kind, object, state, node: stretch.state, gpus, mapped, from, to, carried };
}

function useKind(down: boolean, owned: boolean): 'billed' | 'downtime' | 'overlap' {
  if (owned) return 'overlap';
  return down ? 'downtime' : 'billed';
}

/** Returns a device's sku: the value of SKU_LABEL or the model, then the profile if not `full`. */
export function gpuSku(
  device: Pick<GpuDevice, 'type' | 'profile'>,
  node: NodeState | undefined,
): string {
  const model = node?.sku ?? device.type;
  return device.profile === FULL ? model : `${model}-${device.profile}`;
}

function countOnce(charge: Charge, objects: Set<string>, uid: string, gpus: AllocatedGpus): void {
  if (objects.has(uid)) return;
  objects.add(uid);
  count(charge, 'pods');
  count(charge, 'gpu_devices', gpus.devices);
  if (gpus.coresPct !== undefined) count(charge, 'gpu_cores_pct', gpus.coresPct);
}

/** Finds a charge without building an identity for each pod. */
function createChargeCache(input: MeterInput) {
  const caches = new Map<TenantCluster, Map<NodeState | undefined, Map<string, Charge>>>();
  return (holder: GpuHolder, node: NodeState | undefined, device: GpuDevice): Charge => {
    const { cluster } = holder;
    const split = billedSplit(cluster, holder.state.labels);
    const byNode = caches.get(cluster) ?? new Map<NodeState | undefined, Map<string, Charge>>();
    caches.set(cluster, byNode);
    const charges = byNode.get(node) ?? new Map<string, Charge>();
    byNode.set(node, charges);
    const where = node?.down === true ? holder.nodeName : '';
    const key = keyOf([device.type, device.profile, split.key, where]);
    const known = charges.get(key);
    if (known !== undefined) return known;
    const charge =
      node?.down === true
        ? downtimeCharge(input, holder, node, device, split)
        : gpuHoursCharge(input, cluster, node, device, split);
    charges.set(key, charge);
    return charge;
  };
}

function gpuHoursCharge(
  input: MeterInput,
  cluster: TenantCluster,
  node: NodeState | undefined,
  device: GpuDevice,
  split: Split,
): Charge {
  const identity = chargeIdentity(cluster, 'tenant_gpu_hours', input.settings, {
    sku: gpuSku(device, node),
    node: node ?? 'unknown',
    split,
    dimensions: {
      gpu_type: device.type,
      gpu_profile: device.profile,
      billing_mode: podBillingMode(input),
      capacity_type: node?.capacityType ?? 'on-demand',
    },
  });
  return chargeOf(input, identity);
}

function downtimeCharge(
  input: MeterInput,
  { cluster, nodeName }: GpuHolder,
  node: NodeState,
  device: GpuDevice,
  split: Split,
): Charge {
  const identity = chargeIdentity(cluster, 'tenant_gpu_downtime_hours', input.settings, {
    sku: gpuSku(device, node),
    node,
    split,
    dimensions: { gpu_type: device.type, node: nodeName },
  });
  const charge = chargeOf(input, identity);
  charge.properties['reason'] = UNHEALTHY;
  return charge;
}
