import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { Window } from '../../model/window.ts';
import type { Diagnostics } from './meter-reports.ts';
import type { Charge, ChargeIdentity, Tally } from './tally.ts';

/** The input of every meter. All times are milliseconds since the epoch. */
export interface MeterInput {
  readonly window: Window;
  readonly observation: ObservationReader;
  /**
   * The observation comes from one tenant cluster's own API
   * (docs/explanation/nodes.md#private-nodes). Pods on its private nodes are billed as
   * `private_node`; all others are billed on the host cluster or not at all.
   */
  readonly privateNodes?: true;
  /** Start of the first window that was ever metered: late facts are settled back to here. */
  readonly meteredFrom: number;
  /** Sequence number of the newest tenant cluster that closed windows knew. */
  readonly learntUntil: number;
  readonly settings: MeterSettings;
  readonly tally: Tally;
  readonly diagnostics: Diagnostics;
  /** Called in loops whose length tenants control; throws when the work exceeds its limit. */
  readonly checkpoint?: () => void;
}

/** What GPU hours count: `equivalents` of full GPUs, or `devices`. */
export type GpuQuantity = TenantCluster['metering']['gpuQuantity'];

/** The settings that are the same for all tenant clusters. */
export interface MeterSettings {
  readonly region: string;
  readonly zone?: string;
  readonly regionFromNode: boolean;
  readonly defaultTenantClass?: string;
  /** GPU_RESOURCES, for pods of an unknown node; the state of a known node already applies it. */
  readonly gpuResources: readonly string[];
  /** VCLUSTER_NODE_LABEL, `key=%s`. */
  readonly dedicatedNodeLabel?: string;
  /** How long a usage sample counts at most. */
  readonly sampleValidMs: number;
  /** Drivers whose devices are GPUs (DRA_GPU_DRIVERS). */
  readonly draGpuDrivers: readonly string[];
}

/**
 * A meter adds the charges of its metrics, one object at a step, so that other work can run
 * between. Its input must not change until the last step.
 */
export type Meter = (input: MeterInput) => Generator<void, void>;

type BillingSide = Pick<MeterInput, 'privateNodes'>;

/**
 * Whether pods on a node in this state are billed here. Pods that a tenant cluster's API shows on a
 * foreign node run on the host cluster, which bills them.
 */
export function isBilledHere({ privateNodes }: BillingSide, node: NodeState | undefined): boolean {
  return privateNodes !== true || (node !== undefined && node.foreign !== true);
}

/** Whether TENANT_EXCLUDE_NAMESPACES makes pods on private nodes free, in mode `usage`. */
export function isExcludedNamespace(
  { privateNodes }: BillingSide,
  cluster: TenantCluster,
  namespace: string,
): boolean {
  return privateNodes === true && cluster.metering.excludeNamespaces.includes(namespace);
}

/** Returns the `billing_mode` of pods. */
export function podBillingMode({ privateNodes }: BillingSide): 'shared' | 'private_node' {
  return privateNodes === true ? 'private_node' : 'shared';
}

/**
 * Returns the dimensions that separate volumes and load balancers inside a tenant cluster from its
 * ones on the host cluster. The two are closed at different times and must not have one event id.
 */
export function placeDimensions({ privateNodes }: BillingSide): Readonly<Record<string, string>> {
  return privateNodes === true ? { billing_mode: 'private_node' } : {};
}

/**
 * Returns the charge of an identity. It is marked as unverified where only the tenant's API
 * confirms it (docs/reference/events.md#unverified). `node` is set where a node itself is charged.
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
