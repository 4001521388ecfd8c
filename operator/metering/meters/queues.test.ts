import { describe, expect, test } from 'vitest';
import { draWorld, DOWN, GPU } from './testing/claim-scene.ts';
import { resourceClaim } from './testing/claims.ts';
import { gpuNode, N1, variant } from './testing/gpu-nodes.ts';
import { cluster, SYNCED_LABELS, pod } from './testing/objects.ts';
import { cpu, createWorld, hour, HOUR, START, total, type World } from './testing/world.ts';

const KUEUE = 'kueue.x-k8s.io/cluster-queue-name';
const KAI = 'kai.scheduler/queue';
const DOWN_TAINT = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' };
const BY_QUEUE = cluster('a', { meterByQueue: true });

function queued(name: string, labels: Readonly<Record<string, string>>, more = {}) {
  return pod({ name, node: 'n1', labels: { ...SYNCED_LABELS, ...labels }, ...more });
}

describe('meterByQueue', () => {
  const pods = (world: World): void => {
    world.pod(queued('p', { [KUEUE]: 'training' }, { containers: [{ cpu: '1' }] }));
    world.pod(queued('q', { [KAI]: 'notebooks' }, { containers: [{ cpu: '2' }] }));
    const both = { [KUEUE]: 'training', [KAI]: 'notebooks' };
    world.pod(queued('both', both, { containers: [{ cpu: '4' }] }));
    world.pod(queued('none', { [KUEUE]: '' }, { containers: [{ cpu: '8' }] }));
  };

  test('splits what pods use by the queue that let them in, Kueue’s before KAI’s', () => {
    const events = hour((world) => {
      world.clusters([BY_QUEUE]);
      pods(world);
    });
    expect(cpu(events, { queue: 'training' })).toBe(5);
    expect(cpu(events, { queue: 'notebooks' })).toBe(2);
    const rest = events.filter(({ dimensions }) => dimensions?.['queue'] === undefined);
    expect(cpu(rest)).toBe(8);
  });

  test('changes no sum, and without it no event names a queue', () => {
    const events = hour(pods);
    expect(cpu(events)).toBe(15);
    expect(events.some(({ dimensions }) => 'queue' in (dimensions ?? {}))).toBe(false);
  });

  test('separates queues of different namespaces, and namespaces of different queues', () => {
    const within = (namespace: string, queue: string) => ({
      'vcluster.loft.sh/namespace': namespace,
      [KUEUE]: queue,
    });
    const events = hour((world) => {
      world.clusters([cluster('a', { meterByQueue: true, meterByNamespace: true })]);
      world.pod(queued('p', within('a', 'b-c'), { containers: [{ cpu: '1' }] }));
      world.pod(queued('q', within('a-b', 'c'), { containers: [{ cpu: '2' }] }));
      world.pod(queued('r', { ...within('a', ''), [KAI]: '' }, { containers: [{ cpu: '4' }] }));
    });
    expect(cpu(events, { namespace: 'a', queue: 'b-c' })).toBe(1);
    expect(cpu(events, { namespace: 'a-b', queue: 'c' })).toBe(2);
    expect(cpu(events, { namespace: 'a' })).toBe(5);
  });

  test('bills each queue for its own time when a pod is moved', () => {
    const world = createWorld();
    world.clusters([BY_QUEUE]);
    world.pod(queued('p', { [KUEUE]: 'low' }, { containers: [{ cpu: '1' }] }));
    const moved = queued('p', { [KUEUE]: 'high' }, { containers: [{ cpu: '1' }] });
    world.pod(moved, START + HOUR / 4);
    const { events } = world.close(START, START + HOUR);
    expect(cpu(events, { queue: 'low' })).toBe(0.25);
    expect(cpu(events, { queue: 'high' })).toBe(0.75);
  });

  const gpus = { containers: [{ 'nvidia.com/gpu': 2 }] };

  test.each([
    ['hours', N1, GPU],
    ['downtime', variant(N1, { taints: [DOWN_TAINT] }), DOWN],
  ])('splits GPU %s', (_, fixture, metric) => {
    const world = createWorld();
    world.clusters([BY_QUEUE]);
    world.node(gpuNode(fixture));
    world.pod(queued('p', { [KUEUE]: 'training' }, gpus));
    world.pod(queued('q', {}, gpus));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, metric, { queue: 'training' })).toBe(2);
    expect(total(events, metric)).toBe(4);
  });

  test('puts a claim into the queue of the pods that it is reserved for, not into one that it names', () => {
    const world = draWorld({ pods: [], claims: [] });
    world.clusters([BY_QUEUE]);
    world.pod(queued('c', { [KUEUE]: 'training' }));
    world.resourceClaim(resourceClaim({ labels: { ...SYNCED_LABELS, [KUEUE]: 'free' } }));
    const { events } = world.close(START, START + HOUR);
    expect(total(events, GPU, { queue: 'training' })).toBe(1);
    expect(total(events, GPU)).toBe(1);
  });

  test('applies to pods on private nodes', () => {
    const world = createWorld({ inside: 'tenant-tenant-a-a' });
    world.clusters([cluster('a', { meterByQueue: true, privateNodeBilling: 'usage' })]);
    world.node(gpuNode(N1));
    world.pod(queued('p', { [KUEUE]: 'training' }, { containers: [{ cpu: '3' }] }));
    const { events } = world.close(START, START + HOUR);
    expect(cpu(events, { queue: 'training' })).toBe(3);
  });
});
