import { expect, test } from 'vitest';
import { useTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { projectNode } from '../timelines/node.ts';
import { nodeState } from '../timelines/node-state.ts';
import { projectPod } from '../timelines/pod.ts';
import { gpuNode, N1, N2, N3, N4, N5, N6, N7, type NodeFixture } from './testing/gpu-nodes.ts';
import { NODE_SETTINGS, pod } from './testing/objects.ts';

const api = useTestCluster();

const record = (value: unknown): Record<string, unknown> => value as Record<string, unknown>;

/** A node as the API server returns it. */
async function stored(name: string, object: RawObject): Promise<RawObject> {
  const { labels } = record(object['metadata']);
  const { taints } = record(object['spec']);
  const path = `/api/v1/nodes/${name}`;
  const head = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } };
  await api.call('POST', '/api/v1/nodes', head);
  // The API server taints a new node, and its status is a subresource.
  const current = await api.call('GET', path);
  const spec = { ...record(current['spec']), taints };
  const { resourceVersion } = record(
    (await api.call('PUT', path, { ...current, spec }))['metadata'],
  );
  const metadata = { ...record(current['metadata']), resourceVersion };
  await api.call('PUT', `${path}/status`, { ...current, metadata, spec, status: object['status'] });
  return api.call('GET', path);
}

function stateOf(object: RawObject) {
  const view = projectNode(object);
  return view && nodeState(view, NODE_SETTINGS);
}

const FIXTURES: readonly (readonly [string, NodeFixture])[] = [
  ['whole', N1],
  ['time-sliced', N2],
  ['renamed', N3],
  ['mig-mixed', N4],
  ['mig-single', N5],
  ['amd', N6],
  ['cpu', N7],
];

test.each(FIXTURES)(
  'the %s node of the case tables is what a real API server gives',
  async (name, fixture) => {
    const object = gpuNode({
      ...fixture,
      name: `cases-${name}`,
      allocatable: { 'example.com/lost': '0' },
      capacity: { ...fixture.capacity, 'example.com/lost': '1' },
    });
    try {
      expect(stateOf(await stored(`cases-${name}`, object))).toEqual(stateOf(object));
    } finally {
      await api.call('DELETE', `/api/v1/nodes/cases-${name}`);
    }
  },
);

test('a taint carries the time at which it was added, and a node is down by it', async () => {
  const timeAdded = '2026-03-01T11:00:00Z';
  const taint = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded };
  const object = gpuNode({ ...N1, name: 'cases-down', taints: [taint] });
  try {
    const view = projectNode(await stored('cases-down', object));
    expect(view?.taints).toEqual([{ key: taint.key, timeAdded: Date.parse(timeAdded) }]);
    expect(view && nodeState(view, NODE_SETTINGS).down).toBe(true);
  } finally {
    await api.call('DELETE', '/api/v1/nodes/cases-down');
  }
});

test('a pod with only a limit gets the request that the API server defaults', async () => {
  const namespace = await api.createNamespace('gpu-cases');
  const resources = { limits: { 'nvidia.com/gpu': '2' } };
  const container = { name: 'c0', image: 'simulated/work', resources };
  const sidecar = { ...container, name: 'side', restartPolicy: 'Always' };
  const init = { ...container, name: 'init', resources: { limits: { 'nvidia.com/gpu': 5 } } };
  const created = await api.call('POST', `/api/v1/namespaces/${namespace}/pods`, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p' },
    spec: {
      automountServiceAccountToken: false,
      containers: [container],
      initContainers: [sidecar, init],
    },
  });
  expect(projectPod(created)?.requests.extended).toEqual(new Map([['nvidia.com/gpu', 7]]));
  const fixture = projectPod(pod({ name: 'p', containers: [{ 'nvidia.com/gpu': 7 }] }));
  expect(fixture?.requests).toEqual(projectPod(created)?.requests);
});
