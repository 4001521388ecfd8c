import type { ServerResponse } from 'node:http';
import type { RawObject } from '../../../operator/kubernetes/source.ts';
import type { Random } from '../../faults/random.ts';
import { type Kind, KINDS, objectsOf } from './hostile-cluster.ts';
import { type Requested, beginWatch, type Liar, type Lie, watchLine, writeOn } from './lie.ts';
import { mutated } from './mutate.ts';
import { hostileText, hostileValue } from './values.ts';

const TYPES = ['ADDED', 'MODIFIED', 'DELETED'] as const;

/** Watches that flood, stall, contradict themselves, or tell of what cannot be. */
export const LYING_WATCHES: readonly Liar[] = [
  {
    name: 'events of objects that are mutated',
    make: (random) => {
      const kind = random.pick(KINDS);
      const restMs = random.pick([20, 100, 500]);
      return watch(kind, (requested, response) => {
        const honest = objectsOf(kind, requested.cluster, requested.bornAt, 4);
        void writeOn(
          response,
          () => watchLine(random.pick(TYPES), versioned(mutated(random.pick(honest), random))),
          restMs,
        );
      });
    },
  },
  {
    name: 'the same event without an end',
    make: (random) => {
      const kind = random.pick(KINDS);
      const type = random.pick(['MODIFIED', 'ADDED', 'BOOKMARK', 'ERROR', 'X']);
      const lines = random.pick([1, 50, 1_000]);
      return watch(kind, ({ cluster, bornAt }, response) => {
        const [object] = objectsOf(kind, cluster, bornAt);
        const text = Buffer.from(watchLine(type, object).repeat(lines));
        void writeOn(response, () => text);
      });
    },
  },
  {
    name: 'objects that come and go',
    make: (random) => {
      const kind = random.pick(KINDS);
      const restMs = random.pick([1, 10, 100]);
      return watch(kind, ({ cluster, bornAt }, response) => {
        const objects = objectsOf(kind, cluster, bornAt, 10);
        void writeOn(
          response,
          () => watchLine(random.pick(TYPES), versioned(random.pick(objects))),
          restMs,
        );
      });
    },
  },
  {
    name: 'new objects without an end',
    make: (random) => {
      const kind = random.pick(KINDS);
      let count = 0;
      return watch(kind, ({ cluster, bornAt }, response) => {
        const [object = {}] = objectsOf(kind, cluster, bornAt, 1);
        void writeOn(response, () => {
          count += 1;
          const name = `new-${count}`;
          const metadata = { ...(object['metadata'] as RawObject), name, uid: `uid-${name}` };
          return watchLine('ADDED', versioned({ ...object, metadata }));
        });
      });
    },
  },
  {
    name: 'nodes that go down and come up',
    make: (random) => {
      const restMs = random.pick([5, 50, 500]);
      return watch('nodes', ({ cluster, bornAt }, response) => {
        const nodes = objectsOf('nodes', cluster, bornAt);
        void writeOn(
          response,
          () => watchLine('MODIFIED', versioned(flapped(random.pick(nodes), random))),
          restMs,
        );
      });
    },
  },
  {
    name: 'a line without an end',
    make: (random) => {
      const chunk = Buffer.from(
        random.pick(['x', '{"type":"ADDED","object":{"a":"', '[']).repeat(2_000),
      );
      return watch(
        random.pick(KINDS),
        (_requested, response) => void writeOn(response, () => chunk),
      );
    },
  },
  {
    name: 'a very long line',
    make: (random) => {
      const size = random.pick([100_000, 1_900_000, 7_900_000]);
      return watch(random.pick(KINDS), (_requested, response) => {
        const line = `{"type":"ADDED","object":{"metadata":{"name":"a","annotations":{"a":"${'x'.repeat(size)}"}}}}\n`;
        void writeOn(response, () => line, 300);
      });
    },
  },
  {
    name: 'lines that are no events',
    make: (random) =>
      watch(random.pick(KINDS), (_requested, response) => {
        void writeOn(response, () => `${random.pick(NO_EVENTS)}\n`, 20);
      }),
  },
  {
    name: 'events of impossible versions',
    make: (random) => {
      const kind = random.pick(KINDS);
      return watch(kind, ({ cluster, bornAt }, response) => {
        const [object = {}] = objectsOf(kind, cluster, bornAt);
        void writeOn(
          response,
          () => {
            const resourceVersion = random.chance(0.5) ? hostileText(random) : hostileValue(random);
            const metadata = { ...(object['metadata'] as RawObject), resourceVersion };
            const type = random.pick(['BOOKMARK', 'MODIFIED']);
            return watchLine(type, { ...object, metadata });
          },
          50,
        );
      });
    },
  },
  {
    name: 'a watch that always ends at once',
    make: (random) => {
      const how = random.between(0, 3);
      return watch(random.pick(KINDS), (_requested, response) => {
        if (how === 0) response.end();
        else if (how === 1) response.destroy();
        else if (how === 2) response.end(watchLine('ERROR', { kind: 'Status', code: 410 }));
        else response.end(watchLine('ERROR', hostileValue(random)));
      });
    },
  },
];

const NO_EVENTS: readonly string[] = [
  '',
  '{}',
  'null',
  '[]',
  '{"type":"ADDED"}',
  '{"type":"ADDED","object":null}',
  '{"type":"ADDED","object":[]}',
  '{"type":"DELETED","object":{"metadata":null}}',
  '{"type":"ADDED","object":{"metadata":{"name":1,"uid":{}}}}',
  '{"type":"BOOKMARK","object":{}}',
  '{"type":{"toString":1},"object":{}}',
  '{"type":"ERROR","object":{"code":"410","message":{"a":[]}}}',
  '{"type":"__proto__","object":{"__proto__":{"x":1}}}',
  '['.repeat(100_000),
];

let version = 10_000;

function versioned(object: RawObject): RawObject {
  version += 1;
  const metadata = object['metadata'];
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return object;
  const resourceVersion = String(version);
  return { ...object, metadata: { ...(metadata as RawObject), resourceVersion } };
}

function flapped(node: RawObject, random: Random): RawObject {
  const at = new Date(Date.now() - random.pick([0, 5_000, 3_600_000, -3_600_000])).toISOString();
  const taints = random.chance(0.5)
    ? [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: at }]
    : [];
  const status = node['status'] as RawObject;
  const conditions = [
    { type: 'Ready', status: random.pick(['True', 'False', 'Unknown']), lastTransitionTime: at },
  ];
  return { ...node, spec: { taints }, status: { ...status, conditions } };
}

function watch(kind: Kind, answer: (requested: Requested, response: ServerResponse) => void): Lie {
  return {
    takes: ({ plural, isWatch }) => plural === kind && isWatch,
    answer: (requested, response) => {
      beginWatch(response);
      answer(requested, response);
    },
  };
}
