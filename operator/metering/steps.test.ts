import { expect, test } from 'vitest';
import { meterCpuAndMemory } from './cpu-memory.ts';
import { createFindings } from './findings.ts';
import { balanceGpus } from './gpu-balance.ts';
import { meterClaimedGpus, meterGpuHours } from './gpu-hours.ts';
import { meterLoadBalancers, meterStorage } from './held-resources.ts';
import { meterInstanceHours } from './instance-hours.ts';
import type { Meter } from './meter.ts';
import { noteOwnNodeWord } from './own-node-word.ts';
import { createTally } from './tally.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { claim, cluster, NODE_SETTINGS, pod, service } from './testing/objects.ts';
import { createWorld, HOUR, START } from './testing/world.ts';
import { meterWholeNodes } from './whole-nodes.ts';

const OBJECTS = 30;
const WINDOW = { start: START, end: START + HOUR };
const CLUSTERS = Array.from({ length: OBJECTS }, (_, index) => cluster(`${index}`));
const WORLD = worldOf(...CLUSTERS.map((_, index) => index));

/** An object of each kind for each number, in the one tenant cluster with nodes of its own. */
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

test.each<[string, Meter]>([
  ['CPU and memory', meterCpuAndMemory],
  ['GPU hours', meterGpuHours],
  ['claimed GPUs', meterClaimedGpus],
  ['storage', meterStorage],
  ['load balancers', meterLoadBalancers],
  ['whole nodes', meterWholeNodes],
  ['the word of nodes', noteOwnNodeWord],
  ['the balance of GPUs', balanceGpus],
  ['instance hours', meterInstanceHours],
])('%s of all objects are measured in one piece', (_, meter) => {
  const steps = meter({
    window: WINDOW,
    observation: WORLD.observation,
    ownNodes: true,
    meteredFrom: START,
    learntUntil: 0,
    settings: {
      region: 'default',
      regionFromNode: false,
      sampleHoldMs: HOUR,
      gpuResources: NODE_SETTINGS.gpuResources,
      draGpuDrivers: [],
    },
    tally: createTally(),
    findings: createFindings(),
  });
  expect([...steps].length).toBeGreaterThanOrEqual(meter === meterClaimedGpus ? 0 : OBJECTS);
});
