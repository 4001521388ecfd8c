import { describe, expect, test } from 'vitest';
import { foreignObjectProblem } from './foreign-object.ts';

const NODE = {
  metadata: {
    name: 'gpu-1.example.com',
    uid: '6f1c',
    resourceVersion: '7',
    labels: {
      'kubernetes.io/hostname': 'gpu-1',
      'nvidia.com/gpu.product': 'A100-SXM4-80GB',
      a: '',
    },
    annotations: { 'Example.com/Some_Note': 'anything: {"at": "all"}' },
    managedFields: [{ fieldsV1: { 'f:status': { 'f:capacity': { 'f:nvidia.com/gpu': {} } } } }],
  },
  status: {
    capacity: {
      cpu: '8',
      'hugepages-2Mi': '0',
      'nvidia.com/gpu': '8',
      'nvidia.com/mig-1g.10gb': 1,
    },
  },
};
const withMetadata = (more: object) => ({ ...NODE, metadata: { ...NODE.metadata, ...more } });
const nested = (depth: number): unknown =>
  Array.from({ length: depth }).reduce<unknown>((inner) => ({ a: inner }), 'x');

test('an object as Kubernetes makes it is trusted', () => {
  expect(foreignObjectProblem(NODE)).toBeUndefined();
  const bare = { metadata: { name: 'a', uid: 'u', resourceVersion: '1', labels: null } };
  expect(foreignObjectProblem(bare)).toBeUndefined();
  const device = { basic: { capacity: { _memory: { value: '80Gi' }, 'gpu.example.com/x': {} } } };
  expect(foreignObjectProblem({ ...NODE, spec: { devices: [device] } })).toBeUndefined();
  const requested = { requests: [{ name: 'r' }], capacity: { requests: { memory: '1Gi' } } };
  expect(foreignObjectProblem({ ...NODE, spec: requested })).toBeUndefined();
});

describe('an object that no API server of Kubernetes keeps', () => {
  test.each<[string, object, string]>([
    ['labels nested 20,000 deep', withMetadata({ labels: nested(20_000) }), 'labels: not a map'],
    ['labels in a list', withMetadata({ labels: ['a'] }), 'labels: not a map of text'],
    ['a label that is a number', withMetadata({ labels: { a: 1 } }), 'labels: not a map of text'],
    ['a label of 64 characters', withMetadata({ labels: { a: 'x'.repeat(64) } }), 'a value is not'],
    ['a label with a line end', withMetadata({ labels: { a: 'x\n' } }), 'a value is not'],
    [
      'a label’s key with NUL',
      withMetadata({ labels: { 'a\0b': 'x' } }),
      'a key is not a qualified',
    ],
    [
      'an annotation that is a map',
      withMetadata({ annotations: { a: {} } }),
      'annotations: not a map',
    ],
    [
      'annotations of more than 256 KiB',
      withMetadata({ annotations: { a: 'x'.repeat(300_000) } }),
      'annotations: more than 256 KiB',
    ],
    ['a namespace with a slash', withMetadata({ namespace: 'a/b' }), 'namespace: not a DNS label'],
    ['a uid of a megabyte', withMetadata({ uid: 'x'.repeat(1e6) }), 'metadata.uid: not one'],
    ['a version that is a list', withMetadata({ resourceVersion: [] }), 'metadata.resourceVersion'],
    ['fields nested 20,000 deep', { ...NODE, spec: nested(20_000) }, 'nested more than 64 levels'],
    [
      'a million values',
      { ...NODE, spec: Array.from({ length: 1e6 }, () => 1) },
      'more than 100000 values',
    ],
    [
      'a resource whose name looks like two amounts',
      { ...NODE, status: { capacity: { 'nvidia.com/gpu=8,rdma/ib': '1' } } },
      'capacity: a key is not the name of a resource',
    ],
    [
      'a resource of a container with a name of its own making',
      { ...NODE, spec: { containers: [{ resources: { limits: { 'a b/c': 1 } } }] } },
      'limits: a key is not the name of a resource',
    ],
  ])('is refused with the field and without its text: %s', (_, object, problem) => {
    const stated = foreignObjectProblem({ ...object });
    expect(stated).toContain(`"gpu-1.example.com": `);
    expect(stated).toContain(problem);
    expect(stated?.length).toBeLessThan(120);
  });

  test.each(['', 'A', 'a/b', 'a\u0000', 'x'.repeat(254), '-a', 'a..b', '../a'])(
    'is refused for its name, which is not repeated: %j',
    (name) => {
      expect(foreignObjectProblem(withMetadata({ name }))).toBe(
        'metadata.name: not a DNS subdomain',
      );
    },
  );
});
