import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { NODE_SETTINGS, pod } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/times.ts';
import { createObservation } from './observation.ts';
import { projectPod, type PodView } from './pod.ts';

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** JavaScript heap in use after full collections. */
function heapBytes(): number {
  if (typeof collect !== 'function') throw new Error('the heap cannot be collected');
  collect();
  collect();
  return getHeapStatistics().used_heap_size;
}

const PODS = 20_000;
/** Measured: 510 bytes with lists and objects that grow, 350 at their exact size. */
const MOST_BYTES = 450;

test('a pod that nobody is billed for takes more than its projection and one compact timeline', () => {
  const views: PodView[] = [];
  for (let index = 0; index < PODS; index += 1) {
    const object = pod({ name: `app-${index}`, namespace: `apps-${index % 400}`, labels: {} });
    const view = projectPod(object);
    if (view !== undefined) views.push(view);
  }
  const { pods } = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  const before = heapBytes();
  for (const view of views) {
    pods.upserted(view, undefined, { at: START, knownUntil: 0, late: true });
  }
  pods.settle(START);
  pods.unwritten.drain();
  const bytes = (heapBytes() - before) / PODS;
  expect(pods.size).toBe(PODS);
  expect(bytes).toBeLessThan(MOST_BYTES);
});
