import { expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { attributesOf } from './testing/claim-scene.ts';
import { gpuNode, H100, N1 } from './testing/gpu-nodes.ts';
import { cluster, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, type WorldOptions } from './testing/world.ts';

const OWN = 'meterfeed.io/capacity-type';

/** N1 with these labels only about its capacity type. */
function bought(labels: Readonly<Record<string, string>>): RawObject {
  const object = gpuNode(N1);
  const metadata = { ...(object['metadata'] as RawObject), labels: { ...N1.labels, ...labels } };
  return { ...object, metadata };
}

function attributes(labels: Readonly<Record<string, string>>, options: WorldOptions = {}) {
  const world = createWorld(options);
  world.clusters([cluster('a')]);
  world.node(bought(labels));
  world.pod(pod({ name: 'p', node: 'n1', containers: [{ 'nvidia.com/gpu': 1 }] }));
  return attributesOf(world.close(START, START + HOUR).events);
}

const of = (capacityType: string) => ['1', H100, H100, 'full', capacityType, 'shared'];

test.each([
  ['T01: Karpenter', { 'karpenter.sh/capacity-type': 'spot' }, 'spot'],
  ['T01: Karpenter', { 'karpenter.sh/capacity-type': 'on-demand' }, 'on-demand'],
  ['T01: Karpenter', { 'karpenter.sh/capacity-type': 'reserved' }, 'reserved'],
  ['T02: EKS', { 'eks.amazonaws.com/capacityType': 'SPOT' }, 'spot'],
  ['T02: EKS', { 'eks.amazonaws.com/capacityType': 'ON_DEMAND' }, 'on-demand'],
  [
    'T03: a capacity block of EKS',
    { 'eks.amazonaws.com/capacityType': 'CAPACITY_BLOCK' },
    'reserved',
  ],
  ['T04: a spot node of GKE', { 'cloud.google.com/gke-spot': 'true' }, 'spot'],
  ['T06: provisioning of GKE', { 'cloud.google.com/gke-provisioning': 'spot' }, 'spot'],
  [
    'T06: provisioning of GKE',
    { 'cloud.google.com/gke-provisioning': 'preemptible' },
    'preemptible',
  ],
  ['T06: provisioning of GKE', { 'cloud.google.com/gke-provisioning': 'standard' }, 'on-demand'],
  ['T07: AKS', { 'kubernetes.azure.com/scalesetpriority': 'spot' }, 'spot'],
  ['T08: the lifecycle label', { 'node.kubernetes.io/lifecycle': 'spot' }, 'spot'],
  ['T08: the lifecycle label', { 'node.kubernetes.io/lifecycle': 'normal' }, 'on-demand'],
  ['T09: a label that says no', { 'cloud.google.com/gke-spot': 'false' }, 'on-demand'],
  [
    'T10: our own label first',
    { [OWN]: 'reserved', 'karpenter.sh/capacity-type': 'spot' },
    'reserved',
  ],
  ['T12: in any case of letters', { [OWN]: 'Spot' }, 'spot'],
])('%s: %j', (_id, labels, want) => {
  expect(attributes(labels)).toEqual(of(want));
});

test('T11: the label that CAPACITY_TYPE_LABEL names takes the place of its default', () => {
  const options = { nodeSettings: { capacityTypeLabel: 'x/y' } };
  expect(attributes({ 'x/y': 'preemptible', [OWN]: 'spot' }, options)).toEqual(of('preemptible'));
});
