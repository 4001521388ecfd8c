import { expect, test } from 'vitest';
import { projectWorkload } from '../timelines/retained-objects.ts';
import { projectNode } from '../timelines/node.ts';
import { projectPod } from '../timelines/pod.ts';
import { projectResourceClaim } from '../timelines/resource-claim.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { draWorld } from './testing/claim-scene.ts';
import { resourceClaim } from './testing/claims.ts';
import { gpuNode, N1 } from './testing/gpu-nodes.ts';
import { dedicatedTo } from './testing/node-hours.ts';
import { cluster, pod, workload } from './testing/objects.ts';
import { createWorld, HOUR, START } from './testing/world.ts';

const at = (seconds: number) => START + seconds * 1000;
/** Reported by a resumed watch: it happened at some moment of five seconds. */
const unseen = {
  at: at(600),
  knownUntil: at(580),
  late: false,
  happened: { from: at(590), until: at(595) },
};

/** Uncertainty of each event, by metric. */
function uncertain(events: readonly UsageEvent[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    events.map(({ metric, properties }) => [metric, properties?.['uncertain_seconds']]),
  );
}

function view<T>(project: (object: RawObject) => T | undefined, object: RawObject): T {
  const projected = project(object);
  if (projected === undefined) throw new Error('fixture without uid or name');
  return projected;
}

test('W35: a complete node that went unobserved has its uncertainty on each of its events', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  const node = gpuNode(dedicatedTo(N1));
  world.node(node);
  world.observation.nodes.deleted(view(projectNode, node), unseen);
  const { events } = world.close(START, START + HOUR);
  expect(uncertain(events)).toEqual({
    tenant_private_node_hours: 5,
    tenant_cpu_core_hours: 5,
    tenant_memory_gb_hours: 5,
    tenant_gpu_hours: 5,
  });
  const next = world.close(START + HOUR, START + 2 * HOUR);
  expect(next.events).toEqual([]);
});

test('W35: a resource claim whose pod went unobserved has its uncertainty', () => {
  const world = draWorld({});
  const running = view(projectPod, pod({ name: 'c', node: 'n1' }));
  world.observation.pods.deleted(running, unseen);
  const { events } = world.close(START, START + HOUR);
  expect(uncertain(events)).toMatchObject({ tenant_gpu_hours: 5 });
});

test('W35: a resource claim that is billed from its allocation has the uncertainty of its own end', () => {
  const world = draWorld({ podLifetime: 'scheduled', pods: [] });
  const claim = view(projectResourceClaim, resourceClaim({ pods: [] }));
  world.observation.resourceClaims.deleted(claim, unseen);
  const { events } = world.close(START, START + HOUR);
  expect(uncertain(events)).toMatchObject({ tenant_gpu_hours: 5 });
});

test('a resource claim that was allocated unobserved has its uncertainty, and another has none', () => {
  const world = draWorld({
    podLifetime: 'scheduled',
    pods: [],
    claims: [{ devices: null }, { name: 'd', devices: ['gpu-1'], pods: [] }],
  });
  const claim = view(projectResourceClaim, resourceClaim({ pods: [] }));
  world.observation.resourceClaims.upserted(claim, undefined, {
    ...unseen,
    happened: { from: at(590), until: at(602) },
  });
  const { events } = world.close(START, START + HOUR);
  expect(uncertain(events)).toMatchObject({ tenant_gpu_hours: 12 });
  const [, later] = [0, 1].map((hour) =>
    world.close(START + (hour + 1) * HOUR, START + (hour + 2) * HOUR),
  );
  expect(uncertain(later?.events ?? [])).toEqual({ tenant_gpu_hours: undefined });
});

test('W35: a control plane that went unobserved has its uncertainty', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  const gone = workload({ name: 'a' });
  world.workload(gone);
  world.observation.workloads.deleted(view(projectWorkload, gone), unseen);
  const { events } = world.close(START, START + HOUR);
  expect(uncertain(events)).toMatchObject({ tenant_instance_hours: 5 });
});

test('W35: a control plane that began unobserved has its uncertainty, unless another was ready before', () => {
  const begins = { ...unseen, happened: { from: at(590), until: at(600) } };
  const instance = (others: readonly RawObject[], goneAt?: number) => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    for (const other of others) world.workload(other);
    world.workload(workload({ name: 'a', ready: 0 }), at(1));
    const ready = view(projectWorkload, workload({ name: 'a' }));
    world.observation.workloads.upserted(ready, undefined, begins);
    if (goneAt !== undefined) {
      const seen = { at: goneAt, knownUntil: goneAt, late: false };
      for (const other of others) {
        world.observation.workloads.deleted(view(projectWorkload, other), seen);
      }
    }
    return uncertain(world.close(START, START + HOUR).events);
  };
  expect(instance([])).toMatchObject({ tenant_instance_hours: 10 });
  const other = workload({ name: 'a', kind: 'Deployment' });
  expect(instance([other])).toEqual({ tenant_instance_hours: undefined });
  expect(instance([other], at(700))).toEqual({ tenant_instance_hours: undefined });
});

test('of pods that went unobserved, the largest uncertainty counts', () => {
  const world = createWorld();
  world.clusters([cluster('a')]);
  for (const name of ['p', 'q', 'seen']) {
    world.pod(pod({ name, containers: [{ cpu: '1' }] }));
  }
  const gone = (name: string) => view(projectPod, pod({ name, containers: [{ cpu: '1' }] }));
  world.observation.pods.deleted(gone('p'), unseen);
  const happened = { from: at(590), until: at(592) };
  world.observation.pods.deleted(gone('q'), { ...unseen, happened });
  const { events } = world.close(START, START + HOUR);
  expect(uncertain(events)).toEqual({ tenant_cpu_core_hours: 5 });
});

test('what was observed has no uncertainty', () => {
  const world = draWorld({});
  world.node(gpuNode(dedicatedTo({ ...N1, name: 'n2' })));
  world.workload(workload({ name: 'a' }));
  const { events } = world.close(START, START + HOUR);
  expect(events.length).toBeGreaterThan(4);
  for (const each of events) expect(each).not.toHaveProperty('properties.uncertain_seconds');
});
