import { expect, test } from 'vitest';
import { decideCapacityType } from './capacity-type.ts';

const OWN = 'meterfeed.io/capacity-type';

test.each([
  ['preemptible of GKE', { 'cloud.google.com/gke-preemptible': 'true' }, 'preemptible'],
  ['unknown falls through', { [OWN]: 'cheap', 'karpenter.sh/capacity-type': 'spot' }, 'spot'],
  ['unknown to the end', { [OWN]: 'constructor' }, 'on-demand'],
  ['no label', {}, 'on-demand'],
])('%s: %j', (_id, labels, want) => {
  expect(decideCapacityType(labels, OWN).type).toBe(want);
});

test('the label that CAPACITY_TYPE_LABEL names takes the place of its default', () => {
  const labels = { 'x/y': 'preemptible', [OWN]: 'spot' };
  expect(decideCapacityType(labels, 'x/y').type).toBe('preemptible');
});
