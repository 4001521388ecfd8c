import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { effectiveRequests } from './effective-requests.ts';

const GPU = 'nvidia.com/gpu';
const querying = (count: number, name = 'c'): RawObject => ({
  name,
  resources: { requests: { [GPU]: String(count) }, limits: { [GPU]: String(count) } },
});
const sidecar = (count: number): RawObject => ({
  ...querying(count, 's'),
  restartPolicy: 'Always',
});

const devices = (spec: RawObject): number => effectiveRequests(spec, {}).extended.get(GPU) ?? 0;

describe('devices of a pod', () => {
  test.each([
    [
      'G04: an init container that requests more',
      { containers: [querying(2)], initContainers: [querying(4)] },
      4,
    ],
    ['G05: a sidecar', { containers: [querying(1)], initContainers: [sidecar(1)] }, 2],
    [
      'G06: a sidecar before an init container',
      { containers: [querying(1)], initContainers: [sidecar(1), querying(3)] },
      4,
    ],
    [
      'G07: a sidecar after an init container',
      { containers: [querying(1)], initContainers: [querying(3), sidecar(1)] },
      3,
    ],
    ['G13: a request of zero', { containers: [querying(0)] }, 0],
    ['two containers', { containers: [querying(1), querying(2, 'd')] }, 3],
    [
      'pod-level resources do not name devices',
      { containers: [querying(1)], resources: { requests: { [GPU]: '8' } } },
      1,
    ],
  ])('%s', (_id, spec, want) => {
    expect(devices(spec)).toBe(want);
  });
});

describe('a resize in place', () => {
  const spec = { containers: [{ name: 'c', resources: { requests: { cpu: '4' } } }] };
  const status = (allocated: string, actual: string, reason?: string): RawObject => ({
    conditions: reason === undefined ? [] : [{ type: 'PodResizePending', reason }],
    containerStatuses: [
      {
        name: 'c',
        allocatedResources: { cpu: allocated },
        resources: { requests: { cpu: actual } },
      },
    ],
  });

  test.each([
    ['in progress upward', status('2', '2'), 4n],
    ['in progress downward', status('8', '8'), 8n],
    ['granted, not actuated', status('4', '6'), 6n],
    ['allocated, then lowered before it was actuated', status('8', '2'), 8n],
    ['deferred', status('2', '2', 'Deferred'), 4n],
    ['infeasible', status('2', '2', 'Infeasible'), 2n],
  ])('%s', (_id, podStatus, cores) => {
    expect(effectiveRequests(spec, podStatus).cpu).toBe(cores * 1_000_000_000n);
  });

  test('of pod-level resources counts the larger of requested and allocated', () => {
    const pod = { containers: [], resources: { requests: { cpu: '1' } } };
    const granted = { resources: { requests: { cpu: '3' } } };
    expect(effectiveRequests(pod, granted).cpu).toBe(3_000_000_000n);
    const allocated = { ...granted, allocatedResources: { cpu: '5' } };
    expect(effectiveRequests(pod, allocated).cpu).toBe(5_000_000_000n);
  });

  const INFEASIBLE = { conditions: [{ type: 'PodResizePending', reason: 'Infeasible' }] };

  test('of pod-level resources that no node can grant is billed as if one had', () => {
    const pod = { containers: [], resources: { requests: { cpu: '8' } } };
    const refused = { ...INFEASIBLE, resources: { requests: { cpu: '3' } } };
    expect(effectiveRequests(pod, refused).cpu).toBe(3_000_000_000n);
  });

  test('that no node can grant makes a container free whose status has no resources', () => {
    const waiting = { name: 'd', resources: { requests: { cpu: '1' } } };
    const pod = { containers: [...spec.containers, waiting] };
    const { containerStatuses, conditions } = status('2', '2', 'Infeasible');
    const refused = { conditions, containerStatuses: [containerStatuses, { name: 'd' }].flat() };
    expect(effectiveRequests(pod, refused).cpu).toBe(3_000_000_000n);
  });

  test('of a sidecar is billed as requested while more is allocated', () => {
    const resized = { name: 's', restartPolicy: 'Always', resources: { requests: { cpu: '1' } } };
    const allocated = {
      initContainerStatuses: [{ name: 's', resources: { requests: { cpu: '3' } } }],
    };
    const pod = { ...spec, initContainers: [resized] };
    expect(effectiveRequests(pod, allocated).cpu).toBe(7_000_000_000n);
  });
});

test('a limit without a request costs nothing, where nobody has set the request', () => {
  const limited = { name: 'c', resources: { limits: { cpu: '2' }, requests: { memory: '1' } } };
  const { cpu, memory } = effectiveRequests({ containers: [limited] }, {});
  expect([cpu, memory]).toEqual([2_000_000_000n, 1_000_000_000n]);
});

test('equal requests are one value, so that a hundred thousand pods share them', () => {
  const spec = { containers: [querying(1)] };
  expect(effectiveRequests(spec, {})).toBe(effectiveRequests(structuredClone(spec), {}));
});
