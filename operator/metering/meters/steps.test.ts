import { expect, test } from 'vitest';
import { createDiagnostics } from './meter-reports.ts';
import { meterClaimedGpus } from './gpu-hours.ts';
import { metersAt } from './meters.ts';
import { createTally } from './tally.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { claim, cluster, NODE_SETTINGS, pod, service } from './testing/objects.ts';
import { createWorld, HOUR, START } from './testing/world.ts';

const OBJECTS = 30;
const WINDOW = { start: START, end: START + HOUR };
const CLUSTERS = Array.from({ length: OBJECTS }, (_, index) => cluster(`${index}`));
const WORLD = worldOf(...CLUSTERS.map((_, index) => index));

/** An object of each kind for each number, in a tenant cluster with private nodes. */
function worldOf(...numbers: readonly number[]) {
  const world = createWorld({ inside: cluster('0').id });
  world.clusters(CLUSTERS);
  for (const number of numbers) {
    const place = { name: `o${number}`, namespace: 'default' };
    world.node(gpuNode({ ...N1, name: `n${number}` }));
    world.pod(pod({ ...place, node: `n${number}` }));
    world.claim(claim(place));
    world.service(service(place));
  }
  return world;
}

const METERS = new Set([...metersAt('host'), ...metersAt('private nodes')]);

test.each([...METERS].map(({ measure }) => [measure.name, measure] as const))(
  '%s of all objects are measured in one piece',
  (_, meter) => {
    const steps = meter({
      window: WINDOW,
      observation: WORLD.observation,
      privateNodes: true,
      meteredFrom: START,
      learntUntil: 0,
      settings: {
        region: 'default',
        regionFromNode: false,
        sampleValidMs: HOUR,
        gpuResources: NODE_SETTINGS.gpuResources,
        draGpuDrivers: [],
      },
      tally: createTally(),
      diagnostics: createDiagnostics(),
    });
    expect([...steps].length).toBeGreaterThanOrEqual(meter === meterClaimedGpus ? 0 : OBJECTS);
  },
);
