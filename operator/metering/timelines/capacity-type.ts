/** How a node's capacity is bought (docs/reference/events.md#dimensions). */
export type CapacityType = 'on-demand' | 'spot' | 'preemptible' | 'reserved';

type Labels = Readonly<Record<string, unknown>>;

const VALUES: ReadonlyMap<string, CapacityType> = new Map([
  ['on-demand', 'on-demand'],
  ['ondemand', 'on-demand'],
  ['normal', 'on-demand'],
  ['regular', 'on-demand'],
  ['standard', 'on-demand'],
  ['spot', 'spot'],
  ['ec2spot', 'spot'],
  ['preemptible', 'preemptible'],
  ['preemptable', 'preemptible'],
  ['reserved', 'reserved'],
  ['capacity-block', 'reserved'],
]);

/** A capacity type and the label that decided it; `label` is absent for the default. */
export interface CapacityTypeDecision {
  readonly type: CapacityType;
  readonly label?: string;
}

type LabelReading = readonly [label: string, type: CapacityType | undefined];

/**
 * Returns the capacity type of a node, `on-demand` when no label decides it
 * (docs/explanation/metering.md#capacity-type-zone-and-region).
 * 1. The label of CAPACITY_TYPE_LABEL goes first, then Karpenter, EKS, GKE, AKS and the lifecycle
 *    label.
 * 2. Values are compared without case, and `_` counts as `-`.
 * 3. An unknown value falls through to the next label.
 */
export function decideCapacityType(
  labels: Labels,
  capacityTypeLabel: string,
): CapacityTypeDecision {
  const readings: readonly LabelReading[] = [
    named(labels, capacityTypeLabel),
    named(labels, 'karpenter.sh/capacity-type'),
    named(labels, 'eks.amazonaws.com/capacityType'),
    flagged(labels, 'cloud.google.com/gke-spot', 'spot'),
    flagged(labels, 'cloud.google.com/gke-preemptible', 'preemptible'),
    named(labels, 'cloud.google.com/gke-provisioning'),
    named(labels, 'kubernetes.azure.com/scalesetpriority'),
    named(labels, 'node.kubernetes.io/lifecycle'),
  ];
  for (const [label, type] of readings) if (type !== undefined) return { type, label };
  return { type: 'on-demand' };
}

function named(labels: Labels, label: string): LabelReading {
  const value = labels[label];
  if (typeof value !== 'string') return [label, undefined];
  return [label, VALUES.get(value.trim().toLowerCase().replaceAll('_', '-'))];
}

function flagged(labels: Labels, label: string, type: CapacityType): LabelReading {
  const value = labels[label];
  const isSet = typeof value === 'string' && value.toLowerCase() === 'true';
  return [label, isSet ? type : undefined];
}
