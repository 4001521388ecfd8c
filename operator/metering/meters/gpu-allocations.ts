import { attribute } from '../../discovery/attribution.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { AllocatedGpus } from '../timelines/gpu-device.ts';
import { isReservation } from '../timelines/gpu-fraction.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import type { PodState } from '../timelines/pod.ts';
import { keyOf } from '../timelines/shared-values.ts';
import { candidatesFor } from '../timelines/tenancy.ts';
import { splitAtEdges } from '../timelines/timeline.ts';
import { DeviceCatalogue } from './device-catalogue.ts';
import { claimedGpus } from './dra-devices.ts';
import { claimUses } from './claim-use.ts';
import { mayUsePluggedGpus, pluggedGpus, pluggedRules } from './gpu-hours.ts';
import { isBilledHere, isExcludedNamespace, type MeterInput } from './meter.ts';
import { type NodeLookup, nodesByName } from './node-owners.ts';
import { noteControlPlane, noteUnattributed, type Unattributed } from './meter-reports.ts';
import { EXCLUDED_NAMESPACE, strayReason, unattributedReason } from './unattributed.ts';
import type { TimelineView } from './window-spans.ts';
import type { TimeRange } from '../../model/window.ts';

/** GPUs of one model that are allocated on a node during `[from, to)`. */
export interface GpuAllocation {
  readonly from: number;
  readonly to: number;
  readonly type: string;
  readonly units: bigint;
  /** The billed tenant cluster; undefined for system, excluded and unattributed objects. */
  readonly cluster: TenantCluster | undefined;
  /** The object, if its owner is unknown. */
  readonly stray?: Unattributed;
}

/** How one object uses GPUs. */
interface Holder {
  /** When other pods share the GPU that it reserves for them: what they leave is idle then. */
  readonly lent?: readonly TimeRange[];
  /** It runs; false while its containers have not started. */
  readonly started: boolean;
  readonly node: string;
  allocated(node: NodeState | undefined, at: number): readonly AllocatedGpus[];
}

/** Returns every GPU allocation in the window by node name: the input of the balance. */
export function gpuAllocations(input: MeterInput): ReadonlyMap<string, readonly GpuAllocation[]> {
  const { observation, settings } = input;
  const byNode = new Map<string, GpuAllocation[]>();
  const nodeAt = nodesByName(input);
  const rules = pluggedRules(input);
  const lentTo = lentGpus(observation.pods);
  collect(input, byNode, nodeAt, observation.pods, (state, namespace) =>
    !mayUsePluggedGpus(state)
      ? undefined
      : {
          started: state.phase === 'running',
          node: state.node,
          allocated: (node) => pluggedGpus(state, node, rules),
          ...(isReservation(namespace) && { lent: lentTo(state) }),
        },
  );
  const { draGpuDrivers: drivers } = settings;
  const catalogue = new DeviceCatalogue(observation.resourceSlices);
  collect(input, byNode, nodeAt, claimUses(observation), (state) => {
    const gpu = state.allocation.devices.find(({ driver }) => drivers.includes(driver));
    if (gpu === undefined) return undefined;
    return {
      started: state.phase === 'running',
      node: state.node ?? gpu.pool,
      allocated: (node, at) =>
        claimedGpus(state, node, drivers, (device) => catalogue.find(device, at)),
    };
  });
  return byNode;
}

function collect<S extends { readonly labels: ObjectLabels }>(
  input: MeterInput,
  byNode: Map<string, GpuAllocation[]>,
  nodeAt: NodeLookup,
  view: TimelineView<S>,
  holderOf: (state: S, namespace: string) => Holder | undefined,
): void {
  const { window } = input;
  for (const [namespace, timelines] of view.namespaces()) {
    for (const { name, spans } of timelines) {
      for (const { from, to, state } of spans) {
        if (from >= window.end || to <= window.start) continue;
        const holder = holderOf(state, namespace);
        if (holder === undefined) continue;
        const bounds = [Math.max(from, window.start), Math.min(to, window.end)] as const;
        const since = spans[0]?.from ?? from;
        for (const owned of ownersOf(
          input,
          { namespace, name, labels: state.labels, since },
          ...bounds,
        )) {
          if (!counts(holder, owned.cluster)) continue;
          const known = byNode.get(holder.node) ?? [];
          byNode.set(holder.node, known);
          for (const allocation of allocationsOn(input, nodeAt, holder, owned)) {
            known.push(allocation);
            if (owned.ofControlPlane !== true) continue;
            const gpu = allocation.units * BigInt(allocation.to - allocation.from);
            noteControlPlane(input.diagnostics, { namespace, name }, { gpu });
          }
        }
      }
    }
  }
}

/** A pod that has not started counts where it is billed from its binding on (`podLifetime`). */
function counts({ started }: Holder, cluster: TenantCluster | undefined): boolean {
  return started || cluster?.metering.podLifetime === 'scheduled';
}

interface OwnedTime {
  readonly from: number;
  readonly to: number;
  readonly cluster: TenantCluster | undefined;
  readonly stray?: Unattributed;
  readonly ofControlPlane?: true;
}

function allocationsOn(
  input: MeterInput,
  nodeAt: NodeLookup,
  holder: Holder,
  owned: OwnedTime,
): GpuAllocation[] {
  const { cluster, stray } = owned;
  const owner = { cluster, stray };
  const lent = cluster === undefined ? (holder.lent ?? []) : [];
  return nodeAt(holder.node, owned.from, owned.to).flatMap(({ from, to, state }) => {
    if (!isBilledHere(input, state)) return [];
    const gpus = holder.allocated(state, from);
    return separateFrom(lent, from, to).flatMap((part) =>
      gpus.map(({ device, units }) => ({ ...part, type: device.type, units, ...owner })),
    );
  });
}

function separateFrom(lent: readonly TimeRange[], from: number, to: number): readonly TimeRange[] {
  return splitAtEdges(from, to, lent)
    .filter(([start]) => !lent.some((one) => one.from <= start && start < one.to))
    .map(([start, end]) => ({ from: start, to: end }));
}

/** Returns when pods of a reservation's group share its GPU, by an index made at first use. */
function lentGpus(pods: TimelineView<PodState>): (reservation: PodState) => readonly TimeRange[] {
  let byGroup: Map<string, TimeRange[]> | undefined;
  return ({ node, gpuShares }) => {
    byGroup ??= sharedGroups(pods);
    return (gpuShares?.groups ?? []).flatMap((group) => byGroup?.get(keyOf([node, group])) ?? []);
  };
}

function sharedGroups(pods: TimelineView<PodState>): Map<string, TimeRange[]> {
  const byGroup = new Map<string, TimeRange[]>();
  for (const [namespace, timelines] of pods.namespaces()) {
    if (isReservation(namespace)) continue;
    for (const { from, to, state } of [...timelines].flatMap(({ spans }) => spans)) {
      if (state.gpuShares?.fraction === undefined) continue;
      for (const group of state.gpuShares.groups ?? []) {
        const key = keyOf([state.node, group]);
        const known = byGroup.get(key) ?? [];
        known.push({ from, to });
        byGroup.set(key, known);
      }
    }
  }
  return byGroup;
}

/** The fields of an object that decide who is billed for it. */
interface OwnedObject {
  readonly namespace: string;
  readonly name: string;
  readonly labels: ObjectLabels;
  /** Begin of the object's first span, milliseconds since the epoch. */
  readonly since: number;
}

/** Returns who is billed for an object, in stretches without holes. */
function ownersOf(
  input: MeterInput,
  object: OwnedObject,
  from: number,
  to: number,
): readonly OwnedTime[] {
  const { namespace, labels, since } = object;
  const owned: OwnedTime[] = [];
  const stray = strayReason(input.observation, namespace, labels);
  const foreign = (start: number, end: number): OwnedTime => {
    return { from: start, to: end, ...nobodys(input, object, stray) };
  };
  let at = from;
  for (const tenancy of input.observation.tenantClusters.tenancies(namespace, from, to)) {
    const start = Math.max(from, tenancy.from);
    const end = Math.min(to, tenancy.to);
    if (at < start) owned.push(foreign(at, start));
    const owner = billedTo(input, object, candidatesFor(tenancy, since));
    owned.push({ from: start, to: end, ...owner });
    at = end;
  }
  if (at < to) owned.push(foreign(at, to));
  return owned;
}

type Owner = Pick<OwnedTime, 'cluster' | 'stray' | 'ofControlPlane'>;

function billedTo(
  input: MeterInput,
  object: OwnedObject,
  clusters: readonly TenantCluster[],
): Owner {
  const { namespace, labels } = object;
  const owner = attribute(object, clusters);
  if (owner.kind === 'unattributed') {
    return nobodys(input, object, unattributedReason(labels, clusters));
  }
  if (owner.kind === 'machine') return { cluster: undefined };
  const { cluster } = owner;
  const isBilled =
    !cluster.excluded && (owner.kind !== 'control-plane' || cluster.metering.meterControlPlane);
  if (isBilled && isExcludedNamespace(input, cluster, namespace)) {
    return nobodys(input, object, excludedReason(cluster));
  }
  const ofControlPlane = owner.kind === 'tenant' ? owner.ofControlPlane : undefined;
  return { cluster: isBilled ? cluster : undefined, ofControlPlane };
}

/** On nodes billed as a whole, pods of an excluded namespace are paid for with the node. */
function excludedReason({ metering }: TenantCluster): string | undefined {
  return metering.privateNodeBilling === 'usage' ? EXCLUDED_NAMESPACE : undefined;
}

function nobodys({ diagnostics }: MeterInput, object: OwnedObject, reason?: string): Owner {
  if (reason === undefined) return { cluster: undefined };
  return { cluster: undefined, stray: noteUnattributed(diagnostics, object, reason) };
}
