import { PerformanceObserver } from 'node:perf_hooks';
import { setImmediate as nextRound } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import { isMajor, tuneHeap } from '../heap.ts';

/**
 * A process whose heap fills up, to see when V8 collects it: tells its parent how far (of what was in use) it had
 * grown without a collection, how far when it was collected early, and how often that was done again while it grew on.
 */
export interface HeapTold {
  readonly grownWithout: number;
  readonly grownUntil: number;
  readonly again: number;
}

const heap = tuneHeap(getHeapStatistics().heap_size_limit);
let collections = 0;
new PerformanceObserver((list) => {
  collections += list.getEntries().filter(isMajor).length;
}).observe({ entryTypes: ['gc'] });

const kept: object[] = [];
const used = (): number => process.memoryUsage().heapUsed;

/** Adds what stays, with rounds of the event loop in between, until something holds. */
async function fillUntil(holds: () => boolean, atOnce = 2_000): Promise<void> {
  while (!holds()) {
    for (let index = 0; index < atOnce; index += 1) kept.push({ index, text: `${index}` });
    await nextRound();
  }
}

/** Collections are told some rounds later. */
async function told(): Promise<void> {
  for (let round = 0; round < 50; round += 1) await nextRound();
}

await fillUntil(() => used() > 100 * 2 ** 20);
globalThis.gc?.();
await told();
const before = used();
const counted = collections;
await fillUntil(() => used() > before * 1.3);
await told();
const grownWithout = collections === counted ? used() / before : 0;
heap?.collectEarly(true);
const asked = collections;
let most = used();
await fillUntil(() => {
  most = Math.max(most, used());
  return collections > asked || most > 4 * before;
}, 50);
await told();
const done = collections;
const after = used();
await fillUntil(() => used() > after * 1.3);
await told();
heap?.collectEarly(false);
const again = collections - done;
process.send?.({ grownWithout, grownUntil: most / before, again } satisfies HeapTold);
process.disconnect?.();
