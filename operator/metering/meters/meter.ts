import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { Window } from '../../model/window.ts';
import type { Diagnostics } from './meter-reports.ts';
import type { Charge, ChargeIdentity, Tally } from './tally.ts';

/** What every rule family is given. All times are milliseconds since the epoch. */
export interface MeterInput {
  readonly window: Window;
  readonly observation: ObservationReader;
  /**
   * The observation is what one tenant cluster's own API shows: what is on its nodes is billed as
   * `private_node`, and what is not on them is billed on this cluster or not at all
   * (docs/explanation/nodes.md#private-nodes).
   */
  readonly privateNodes?: true;
  /** Late facts are settled back to here: the start of the first window that was ever metered. */
  readonly meteredFrom: number;
  /** The tenant clusters that closed windows knew of: those learnt up to this number. */
  readonly learntUntil: number;
  readonly settings: MeterSettings;
  readonly tally: Tally;
  readonly diagnostics: Diagnostics;
  /** Called in loops whose length others choose; throws when the work is more than may be. */
  readonly checkpoint?: () => void;
}

/** What GPU hours count: `equivalents` of whole GPUs, or `devices`. */
export type GpuQuantity = TenantCluster['metering']['gpuQuantity'];

/** The settings that are the same for all tenant clusters. */
export interface MeterSettings {
  readonly region: string;
  readonly zone?: string;
  readonly regionFromNode: boolean;
  readonly defaultTenantClass?: string;
  /** GPU_RESOURCES, for pods whose node was never seen; nodes carry their own reading of it. */
  readonly gpuResources: readonly string[];
  /** VCLUSTER_NODE_LABEL, `key=%s`. */
  readonly dedicatedNodeLabel?: string;
  /** How long a usage sample holds at most. */
  readonly sampleValidMs: number;
  /** Drivers whose devices are GPUs (DRA_GPU_DRIVERS). */
  readonly draGpuDrivers: readonly string[];
}

/**
 * One rule family: adds the charges of its metrics, one object after the other, so that others may have a turn after
 * each. What it measures out of must stay what it is until the last step.
 */
export type Meter = (input: MeterInput) => Generator<void, void>;

type Place = Pick<MeterInput, 'privateNodes'>;

/**
 * Whether what runs on a node in this state is billed here. Pods that a tenant cluster's own API
 * shows on a node that is not its own run on this cluster, which bills them.
 */
export function isBilledHere({ privateNodes }: Place, node: NodeState | undefined): boolean {
  return privateNodes !== true || (node !== undefined && node.foreign !== true);
}

/** TENANT_EXCLUDE_NAMESPACES: pods on own nodes that cost nothing in mode `usage`. */
export function isExcludedNamespace(
  { privateNodes }: Place,
  cluster: TenantCluster,
  namespace: string,
): boolean {
  return privateNodes === true && cluster.metering.excludeNamespaces.includes(namespace);
}

/** The `billing_mode` of pods. */
export function podBillingMode({ privateNodes }: Place): 'shared' | 'private_node' {
  return privateNodes === true ? 'private_node' : 'shared';
}

/**
 * What tells events of volumes and load balancers inside a tenant cluster from those of the ones that
 * it has on this cluster: the two are closed at different times and must not have one id.
 */
export function ownDimensions({ privateNodes }: Place): Readonly<Record<string, string>> {
  return privateNodes === true ? { billing_mode: 'private_node' } : {};
}

/**
 * The charge of an identity. One that rests on the word of a tenant alone, about a node or about what
 * runs inside of its cluster, is marked (docs/reference/events.md#unverified). `node` is given where a node itself
 * is charged.
 */
export function chargeOf(
  { tally, privateNodes }: Pick<MeterInput, 'tally' | 'privateNodes'>,
  identity: ChargeIdentity,
  node?: NodeState,
): Charge {
  const charge = tally.charge(identity);
  if (privateNodes === true && node?.provenBy === undefined) charge.properties['unverified'] = true;
  return charge;
}
