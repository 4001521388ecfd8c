import type { RawObject } from '../../../operator/kubernetes/source.ts';
import type { Random } from '../../faults/random.ts';
import { objectsOf } from './hostile-cluster.ts';
import { beginWatch, type Liar, watchLine, writeOn } from './lie.ts';
import { pages } from './lying-lists.ts';

/** Changes a valid node so that it stays valid, and takes up more memory than its bytes. */
type Shape = (node: RawObject, entries: number, index: number) => RawObject;

const SHAPES: readonly Shape[] = [
  (node, entries, index) => labelled(node, entries, (at) => `a${index}-${at}`),
  (node, entries, index) =>
    labelled(node, entries, (at) => `nvidia.com/mig-${index}g.${at}gb.count`),
  (node, entries, index) => sized(node, entries, (at) => `x.example/a${index}-${at}`),
  (node, entries, index) => sized(node, entries, (at) => `nvidia.com/mig-${index}g.${at}gb`),
  (node, entries) => ({
    ...node,
    spec: {
      taints: Array.from({ length: entries }, (_, at) => ({ key: `k${at}`, effect: 'NoSchedule' })),
    },
  }),
  (node, entries, index) => {
    const devices = Array.from(
      { length: Math.min(entries, 256) },
      (_, at) => `GPU-${index}-${at},10,81920,100,NVIDIA-A100-${index}-${at},0,true`,
    );
    const annotations = { 'hami.io/node-nvidia-register': devices.join(':') };
    return { ...node, metadata: { ...(node['metadata'] as RawObject), annotations } };
  },
];

/** Nodes that Kubernetes would take, whose shape fills the memory of who keeps them. */
export const NODE_SHAPES: readonly Liar[] = [
  {
    name: 'valid nodes that take up much memory',
    make: (random) => {
      const shape = random.pick(SHAPES);
      const entries = random.pick([100, 500, 2_000]);
      return pages('nodes', random.pick([1_000, 10_000]), ({ cluster, bornAt }, index) =>
        shape(nodeOf(cluster, bornAt, index), entries, index),
      );
    },
  },
  {
    name: 'nodes whose valid shape changes all the time',
    make: (random) => {
      const shape = random.pick(SHAPES);
      const entries = random.pick([64, 500]);
      const restMs = random.pick([1, 20]);
      return {
        takes: ({ plural, isWatch }) => plural === 'nodes' && isWatch,
        answer: ({ cluster, bornAt }, response) => {
          beginWatch(response);
          void writeOn(
            response,
            () => changedNode(random, shape, entries, cluster, bornAt),
            restMs,
          );
        },
      };
    },
  },
];

function changedNode(
  random: Random,
  shape: Shape,
  entries: number,
  cluster: string,
  bornAt: number,
): string {
  const version = random.between(1_001, 1_000_000);
  const node = shape(nodeOf(cluster, bornAt, random.between(0, 9)), entries, version);
  const metadata = { ...(node['metadata'] as RawObject), resourceVersion: String(version) };
  return watchLine('MODIFIED', { ...node, metadata });
}

function nodeOf(cluster: string, bornAt: number, index: number): RawObject {
  const [node = {}] = objectsOf('nodes', cluster, bornAt, 1);
  const name = `${cluster}-${index}`;
  return { ...node, metadata: { ...(node['metadata'] as RawObject), name, uid: `uid-${name}` } };
}

function labelled(node: RawObject, entries: number, name: (at: number) => string): RawObject {
  return { ...node, metadata: { ...(node['metadata'] as RawObject), labels: many(entries, name) } };
}

function sized(node: RawObject, entries: number, name: (at: number) => string): RawObject {
  const amounts = { cpu: '64', memory: '512Gi', ...many(entries, name) };
  const status = { ...(node['status'] as RawObject), capacity: amounts, allocatable: amounts };
  return { ...node, status };
}

function many(entries: number, name: (at: number) => string): Record<string, string> {
  return Object.fromEntries(Array.from({ length: entries }, (_, at) => [name(at), '1']));
}
