/** How a node's capacity is bought (spec 2.1, closed list). */
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

/**
 * The capacity type of a node (design 7): the label the operator names, then Karpenter, EKS, GKE,
 * AKS and the lifecycle label. Values are read without regard to case, `_` as `-`; a value that
 * nobody knows falls through to the next label; without any it is on demand.
 */
export function capacityTypeOf(labels: Labels, capacityTypeLabel: string): CapacityType {
  return (
    named(labels, capacityTypeLabel) ??
    named(labels, 'karpenter.sh/capacity-type') ??
    named(labels, 'eks.amazonaws.com/capacityType') ??
    flagged(labels, 'cloud.google.com/gke-spot', 'spot') ??
    flagged(labels, 'cloud.google.com/gke-preemptible', 'preemptible') ??
    named(labels, 'cloud.google.com/gke-provisioning') ??
    named(labels, 'kubernetes.azure.com/scalesetpriority') ??
    named(labels, 'node.kubernetes.io/lifecycle') ??
    'on-demand'
  );
}

function named(labels: Labels, label: string): CapacityType | undefined {
  const value = labels[label];
  if (typeof value !== 'string') return undefined;
  return VALUES.get(value.trim().toLowerCase().replaceAll('_', '-'));
}

function flagged(labels: Labels, label: string, type: CapacityType): CapacityType | undefined {
  const value = labels[label];
  return typeof value === 'string' && value.toLowerCase() === 'true' ? type : undefined;
}
