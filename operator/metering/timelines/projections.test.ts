import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { projectLoadBalancer, projectVolumeClaim, projectWorkload } from './retained-objects.ts';
import { projectNode } from './node.ts';
import { projectPod } from './pod.ts';
import { projectResourceClaim } from './resource-claim.ts';
import { projectResourceSlice } from './resource-slice.ts';

const PROJECTIONS = [
  projectPod,
  projectNode,
  projectVolumeClaim,
  projectLoadBalancer,
  projectWorkload,
  projectResourceClaim,
  projectResourceSlice,
];

/** Objects with the right names in the wrong places. */
const KEYS = [
  'metadata',
  'uid',
  'name',
  'labels',
  'annotations',
  'creationTimestamp',
  'spec',
  'type',
  'containers',
  'initContainers',
  'resources',
  'requests',
  'cpu',
  'overhead',
  'status',
  'phase',
  'conditions',
  'containerStatuses',
  'state',
  'terminated',
  'loadBalancer',
  'ingress',
  'capacity',
  'readyReplicas',
  'allocation',
  'devices',
  'results',
  'driver',
  'pool',
  'device',
  'consumedCapacity',
  'nodeSelector',
  'nodeSelectorTerms',
  'matchFields',
  'values',
  'reservedFor',
  'attributes',
  'profile',
  'basic',
  'allowMultipleAllocations',
];
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 6 },
    fc.constantFrom('x', '', '1x', '2026-03-01T12:00:00Z', 'LoadBalancer', 'Running'),
    fc.constantFrom(null, true, 0, -1, 1e300),
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie('tree'), { maxKeys: 8 }),
  ),
}));

test('an object of any shape is projected or refused, and throws nothing', () => {
  const objects = fc.dictionary(fc.constantFrom(...KEYS), tree, { maxKeys: 8 });
  fc.assert(
    fc.property(objects, tree, (object, metadata) => {
      const complete: RawObject = {
        ...object,
        metadata: { uid: 'u', name: 'n', labels: metadata, annotations: metadata },
      };
      for (const project of PROJECTIONS) {
        expect(() => project(object)).not.toThrow();
        expect(() => project(complete)).not.toThrow();
      }
    }),
    { numRuns: 300 },
  );
});
