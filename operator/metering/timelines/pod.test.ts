import { describe, expect, test } from 'vitest';
import type { Arrival, RawObject } from '../../kubernetes/source.ts';
import { NODE_SETTINGS, pod } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/world.ts';
import { createObservation } from './observation.ts';
import { forGpuPods, type PodView, projectPod } from './pod.ts';

const at = (second: number): number => START + second * 1000;
const live = (second: number): Arrival => ({ at: at(second), knownUntil: at(second), late: false });

function viewOf(object: RawObject): PodView {
  const projected = projectPod(object);
  if (projected === undefined) throw new Error('fixture without uid or name');
  return projected;
}

const view = (more: { readonly metadata?: RawObject; readonly status?: RawObject }): PodView =>
  viewOf(pod({ name: 'p', createdAt: at(0), startedAt: at(7), ...more }));

const bare = view({});
const shared = view({ metadata: { annotations: { 'gpu-fraction': '0.5' } } });

function setUp() {
  const { gpuPods } = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  const spans = () =>
    [...gpuPods.inNamespace('tenant-a')]
      .flatMap((timeline) => timeline.spans)
      .filter(({ state }) => state.phase === 'running')
      .map(({ from, to, state }) => [
        (from - START) / 1000,
        (to - START) / 1000,
        state.gpuShares !== undefined,
      ]);
  return { handler: forGpuPods(gpuPods), spans, gpuPods };
}

describe('a pod that shares a GPU', () => {
  test('gives it back where somebody removes the annotation, or is billed after its end', () => {
    const { handler, spans } = setUp();
    handler.upserted(shared, undefined, live(10));
    handler.upserted(bare, shared, live(20));
    handler.deleted(bare, live(30));
    expect(spans()).toEqual([[7, 30, true]]);
  });

  test('is billed for it after it has finished, where the annotation is gone by then', () => {
    const { handler, spans } = setUp();
    handler.upserted(shared, undefined, live(10));
    const finished = { name: 'p', phase: 'Succeeded', createdAt: at(0), startedAt: at(7) };
    handler.upserted(viewOf(pod({ ...finished, finishedAt: at(25) })), shared, live(30));
    expect(spans()).toEqual([[7, 25, true]]);
  });

  test('is billed for it from its start, though it got the annotation later', () => {
    const { handler, spans } = setUp();
    handler.upserted(bare, undefined, live(10));
    expect(spans()).toEqual([]);
    handler.upserted(shared, bare, live(20));
    expect(spans()).toEqual([
      [7, 20, false],
      [20, Infinity, true],
    ]);
  });

  test('is not known when it is gone before anybody saw it', () => {
    const { handler, spans } = setUp();
    handler.deleted(shared, live(30));
    expect(spans()).toEqual([[7, 30, true]]);
  });
});

test('a pod whose extended resource a claim serves is no user of a GPU', () => {
  const { handler, gpuPods } = setUp();
  handler.upserted(view({ status: { extendedResourceClaimStatus: {} } }), undefined, live(10));
  expect(gpuPods.size).toBe(1);
});

test('pods without GPUs are kept twice', () => {
  const { handler, gpuPods } = setUp();
  handler.upserted(bare, undefined, live(10));
  handler.upserted(bare, bare, live(20));
  handler.deleted(bare, live(30));
  expect(gpuPods.size).toBe(0);
});
