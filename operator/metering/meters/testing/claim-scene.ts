import type { RawObject } from '../../../kubernetes/source.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { type ResourceClaimFixture, resourceClaim, slice } from './claims.ts';
import { gpuNode, N1 } from './gpu-nodes.ts';
import { cluster, pod, type PodFixture } from './objects.ts';
import { createWorld, HOUR, START, type World, type WorldOptions } from './world.ts';

export const GPU = 'tenant_gpu_hours';
export const DOWN = 'tenant_gpu_downtime_hours';

/** N1 with a driver of claims: no extended resource. */
export const DRA_NODE = { ...N1, capacity: { cpu: '192', memory: '2Ti' } };
/** The same without labels. */
export const BARE_NODE = { ...DRA_NODE, labels: {} };

/** Node `n1` with its slices, claims and pods, and tenant cluster `a`. */
export interface Scene {
  readonly node?: RawObject;
  readonly slices?: readonly RawObject[];
  readonly claims?: readonly ResourceClaimFixture[];
  /** By default one for the claim `c`. */
  readonly pods?: readonly Partial<PodFixture>[];
  readonly podLifetime?: 'running' | 'scheduled';
  readonly options?: WorldOptions;
}

/** The events of one hour at a constant state. */
export function draHour(scene: Scene): readonly UsageEvent[] {
  const world = draWorld(scene);
  return world.close(START, START + HOUR).events;
}

/** The world of a scene, before any window is closed. */
export function draWorld(scene: Scene): World {
  const { podLifetime = 'running', pods = [{}], claims = [{}] } = scene;
  const world = createWorld(scene.options);
  world.clusters([cluster('a', { podLifetime })]);
  world.node(scene.node ?? gpuNode(DRA_NODE));
  for (const object of scene.slices ?? [slice()]) world.slice(object);
  for (const fixture of pods) world.pod(pod({ name: 'c', node: 'n1', ...fixture }));
  for (const fixture of claims) world.resourceClaim(resourceClaim(fixture));
  return world;
}

/** The one event of a metric, as the case tables list its attributes. */
export function attributesOf(events: readonly UsageEvent[], metric = GPU): readonly unknown[] {
  const [event, ...others] = events.filter((each) => each.metric === metric);
  if (event === undefined || others.length > 0) {
    throw new Error(`${metric}: ${others.length + 1} events or none where one was expected`);
  }
  const { gpu_type, gpu_profile, capacity_type, billing_mode } = event.dimensions ?? {};
  return [event.quantity, event.sku, gpu_type, gpu_profile, capacity_type, billing_mode];
}
