import { expect, test } from 'vitest';
import { decideCapacityType } from './capacity-type.ts';

const OWN = 'meterfeed.io/capacity-type';

test.each([
  ['T01', { 'karpenter.sh/capacity-type': 'spot' }, 'spot'],
  ['T01', { 'karpenter.sh/capacity-type': 'on-demand' }, 'on-demand'],
  ['T01', { 'karpenter.sh/capacity-type': 'reserved' }, 'reserved'],
  ['T02', { 'eks.amazonaws.com/capacityType': 'SPOT' }, 'spot'],
  ['T02', { 'eks.amazonaws.com/capacityType': 'ON_DEMAND' }, 'on-demand'],
  ['T03', { 'eks.amazonaws.com/capacityType': 'CAPACITY_BLOCK' }, 'reserved'],
  ['T04', { 'cloud.google.com/gke-spot': 'true' }, 'spot'],
  ['T05', { 'cloud.google.com/gke-preemptible': 'true' }, 'preemptible'],
  ['T06', { 'cloud.google.com/gke-provisioning': 'spot' }, 'spot'],
  ['T06', { 'cloud.google.com/gke-provisioning': 'preemptible' }, 'preemptible'],
  ['T06', { 'cloud.google.com/gke-provisioning': 'standard' }, 'on-demand'],
  ['T07', { 'kubernetes.azure.com/scalesetpriority': 'spot' }, 'spot'],
  ['T08', { 'node.kubernetes.io/lifecycle': 'spot' }, 'spot'],
  ['T08', { 'node.kubernetes.io/lifecycle': 'normal' }, 'on-demand'],
  ['T09', { 'cloud.google.com/gke-spot': 'false' }, 'on-demand'],
  ['T10', { [OWN]: 'reserved', 'karpenter.sh/capacity-type': 'spot' }, 'reserved'],
  ['T12', { [OWN]: 'Spot' }, 'spot'],
  ['unknown falls through', { [OWN]: 'cheap', 'karpenter.sh/capacity-type': 'spot' }, 'spot'],
  ['unknown to the end', { [OWN]: 'constructor' }, 'on-demand'],
  ['no label', {}, 'on-demand'],
])('%s: %j', (_id, labels, want) => {
  expect(decideCapacityType(labels, OWN).type).toBe(want);
});

test('T11: the label that CAPACITY_TYPE_LABEL names takes the place of its default', () => {
  const labels = { 'x/y': 'preemptible', [OWN]: 'spot' };
  expect(decideCapacityType(labels, 'x/y').type).toBe('preemptible');
});
