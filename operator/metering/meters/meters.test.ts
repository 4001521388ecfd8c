import { expect, test } from 'vitest';
import { atOnce } from '../../model/at-once.ts';
import type { Observation } from '../timelines/observation.ts';
import { createDiagnostics } from './meter-reports.ts';
import { METERED_OBJECTS, type MeteredObject, type MeterPlace, metersAt } from './meters.ts';
import { createTally } from './tally.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { claim, cluster, NODE_SETTINGS, pod, service } from './testing/objects.ts';
import { createWorld, HOUR, START } from './testing/world.ts';

const PLACES: readonly MeterPlace[] = ['host', 'private nodes'];

function world(place: MeterPlace): Observation {
  const made = createWorld(place === 'host' ? {} : { inside: cluster('a').id });
  made.clusters([cluster('a')]);
  made.node(gpuNode({ ...N1, name: 'n1' }));
  const where = { name: 'o1', namespace: cluster('a').namespace };
  made.pod(pod({ ...where, node: 'n1' }));
  made.claim(claim(where));
  made.service(service(where));
  return made.observation;
}

/** The kinds of objects that are read while `measure` runs. */
function readBy(
  observation: Observation,
  measure: (seen: Observation) => Generator<void, void>,
): readonly MeteredObject[] {
  const read = new Set<PropertyKey>();
  const seen = new Proxy(observation, {
    get: (target, field, receiver) => {
      read.add(field);
      return Reflect.get(target, field, receiver) as unknown;
    },
  });
  atOnce(measure(seen));
  return METERED_OBJECTS.filter((object) => read.has(object));
}

test.each(
  PLACES.flatMap((place) => metersAt(place).map((use) => [use.measure.name, place, use] as const)),
)('%s on %s reads nothing that its windows do not wait for', (_, place, { measure, objects }) => {
  const read = readBy(world(place), (observation) =>
    measure({
      window: { start: START, end: START + HOUR },
      observation,
      ...(place === 'host' ? {} : { privateNodes: true }),
      meteredFrom: START - HOUR,
      learntUntil: 0,
      settings: {
        region: 'default',
        regionFromNode: false,
        sampleValidMs: HOUR,
        gpuResources: NODE_SETTINGS.gpuResources,
        draGpuDrivers: ['gpu.nvidia.com'],
      },
      tally: createTally(),
      diagnostics: createDiagnostics(),
    }),
  );
  expect([...objects].toSorted()).toStrictEqual([...read].toSorted());
});
