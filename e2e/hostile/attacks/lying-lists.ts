import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { groupOf } from '../world/serve-api.ts';
import { type Kind, KINDS, objectsOf, podMetrics } from './hostile-cluster.ts';
import { type Requested, type Liar, type Lie, listOf, sendJson, sendText } from './lie.ts';
import { mutated } from './mutate.ts';
import { hostileText, hostileValue } from './values.ts';

/** Lists that are none, or whose objects are not what they should be. */
export const LYING_LISTS: readonly Liar[] = [
  {
    name: 'objects that are mutated in a list',
    make: (random) => {
      const kind = random.pick(KINDS);
      const seeds = Array.from({ length: random.between(1, 5) }, () => random.fraction());
      return list(kind, (requested) => {
        const honest = objectsOf(kind, requested.cluster, requested.bornAt, 4);
        const bad = seeds.map((at) => {
          const object = honest[Math.floor(at * honest.length)] ?? {};
          return mutated(object, random);
        });
        return listOf([...honest, ...bad]);
      });
    },
  },
  {
    name: 'objects of every kind that are mutated',
    make: (random) => ({
      takes: ({ isWatch }) => !isWatch,
      answer: (requested, response) => {
        const kind = KINDS.find((each) => each === requested.plural);
        if (kind === undefined) return sendJson(response, 200, listOf([]));
        const honest = objectsOf(kind, requested.cluster, requested.bornAt, 6);
        sendJson(response, 200, listOf(honest.map((object) => mutated(object, random))));
      },
    }),
  },
  {
    name: 'a mutated list',
    make: (random) => {
      const kind = random.pick(KINDS);
      return list(kind, ({ cluster, bornAt }) =>
        mutated(listOf(objectsOf(kind, cluster, bornAt)), random),
      );
    },
  },
  {
    name: 'an impossible version of a list',
    make: (random) => {
      const resourceVersion = hostileValue(random);
      return list(random.pick(KINDS), () => listOf([], { resourceVersion }));
    },
  },
  {
    name: 'a page of empty objects',
    make: (random) => {
      const count = random.pick([10_000, 600_000, 2_700_000]);
      return text(random.pick(KINDS), () => listText('{},'.repeat(count), '{}'));
    },
  },
  {
    name: 'one object many times',
    make: (random) => {
      const kind = random.pick(KINDS);
      const count = random.pick([900, 3_000, 20_000]);
      return list(kind, ({ cluster, bornAt }) => {
        const [object = {}] = objectsOf(kind, cluster, bornAt);
        return listOf(Array.from({ length: count }, () => object));
      });
    },
  },
  {
    name: 'many objects',
    make: (random) => {
      const kind = random.pick(KINDS);
      const count = random.pick([1_000, 5_000, 25_000]);
      return pages(kind, count, ({ cluster, bornAt }, index) =>
        named(kind, cluster, bornAt, index),
      );
    },
  },
  {
    name: 'many slices of one node',
    make: (random) => {
      const devices = random.pick([0, 1, 8, 128, 400]);
      return pages('resourceslices', random.pick([500, 8_000]), ({ cluster, bornAt }, index) => {
        const [slice = {}] = objectsOf('resourceslices', cluster, bornAt, 1);
        return withDevices(slice, index, devices);
      });
    },
  },
  {
    name: 'pages without an end',
    make: (random) => {
      const kind = random.pick(KINDS);
      const size = random.pick([0, 1, 100, 500]);
      return list(kind, ({ cluster, bornAt }) => {
        const items = objectsOf(kind, cluster, bornAt, size);
        return listOf(items, {
          continue: random.chance(0.1) ? 'x'.repeat(9_000) : hostileText(random) || 'x',
        });
      });
    },
  },
  {
    name: 'broken JSON',
    make: (random) => {
      const body = random.pick(BROKEN);
      return text(random.pick(KINDS), () => body);
    },
  },
  {
    name: 'a number of many digits',
    make: (random) => {
      const digits = random.pick([400, 100_000, 1_500_000]);
      return text(random.pick(KINDS), () => listText(`{"a":${'9'.repeat(digits)}}`, '{}'));
    },
  },
  {
    name: 'use that is mutated',
    make: (random) => ({
      takes: ({ url }) => url.includes('metrics.k8s.io'),
      answer: (_requested, response) => {
        const items = podMetrics(random.pick([3, 2_000])).map((use) => mutated(use, random));
        sendJson(response, 200, listOf(items));
      },
    }),
  },
  {
    name: 'other versions of an API',
    make: (random) => {
      const served = random.pick(['v1beta1', 'v1beta2', 'v1', 'v2']);
      return {
        takes: ({ url }) => url.includes('resource.k8s.io'),
        answer: ({ url, cluster, bornAt, plural }, response) => {
          const kind = KINDS.find((each) => each === plural) ?? 'resourceslices';
          const group = groupOf(url, [served]);
          if (group !== undefined) {
            return sendJson(response, 200, random.chance(0.5) ? group : mutated(group, random));
          }
          if (!url.includes(served)) return sendJson(response, 404, { kind: 'Status', code: 404 });
          const items = objectsOf(kind, cluster, bornAt).map((object) => mutated(object, random));
          sendJson(response, 200, listOf(items));
        },
      };
    },
  },
];

const BROKEN: readonly string[] = [
  '',
  '{',
  '[]',
  'null',
  '0',
  '"list"',
  '{"items":[{}',
  '{"metadata":{"resourceVersion":"1"},"items":[NaN]}',
  '{"metadata":{"resourceVersion":"1"},"items":[{"metadata":undefined}]}',
  '\ufeff{"metadata":{"resourceVersion":"1"},"items":[]}',
  '['.repeat(900_000),
  '{"items":'.repeat(200_000),
  '{"metadata":{"resourceVersion":"1"},"items":{"0":{}}}',
  '{"metadata":{"resourceVersion":"1"},"items":"none"}',
  '{"metadata":{"resourceVersion":"1","continue":"x"},"items":null}',
  '{"metadata":{"resourceVersion":"1"},"items":[null,0,"",[],[[]]]}',
];

function list(kind: Kind, make: (requested: Requested) => RawObject): Lie {
  return {
    takes: ({ plural, isWatch }) => plural === kind && !isWatch,
    answer: (requested, response) => sendJson(response, 200, make(requested)),
  };
}

function text(kind: Kind, make: () => string): Lie {
  return {
    takes: ({ plural, isWatch }) => plural === kind && !isWatch,
    answer: (_requested, response) => sendText(response, 200, make()),
  };
}

function listText(items: string, last: string): string {
  return `{"kind":"List","metadata":{"resourceVersion":"1000"},"items":[${items.replace(/,$/, '')},${last}]}`;
}

/** As many objects as are said, in pages of the size that is asked for. */
export function pages(
  kind: Kind,
  count: number,
  make: (requested: Requested, index: number) => RawObject,
): Lie {
  return list(kind, (requested) => {
    const limit = Number(requested.query.get('limit') ?? 500);
    const from = Number(requested.query.get('continue') ?? 0);
    const end = Math.min(count, from + limit);
    const items = Array.from({ length: end - from }, (_, offset) => make(requested, from + offset));
    return listOf(items, end < count ? { continue: String(end) } : {});
  });
}

function named(kind: Kind, cluster: string, bornAt: number, index: number): RawObject {
  const [object = {}] = objectsOf(kind, cluster, bornAt, 1);
  const name = `${kind}-${index}`;
  const metadata = { ...(object['metadata'] as RawObject), name, uid: `uid-${name}` };
  return { ...object, metadata };
}

function withDevices(slice: RawObject, index: number, count: number): RawObject {
  const name = `slice-${index}`;
  const spec = slice['spec'] as RawObject;
  const [device] = spec['devices'] as readonly RawObject[];
  const devices = Array.from({ length: count }, (_, at) => ({ ...device, name: `gpu-${at}` }));
  return {
    ...slice,
    metadata: { ...(slice['metadata'] as RawObject), name, uid: `uid-${name}` },
    spec: { ...spec, devices },
  };
}
