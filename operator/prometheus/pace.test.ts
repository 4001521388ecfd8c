import { expect, test } from 'vitest';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { createPace } from './query.ts';

test('U19: thousands of queries do not begin at once, and a stop does not wait for their turn', async () => {
  const clock = createManualClock(0);
  const pace = createPace(clock, 200);
  const stop = new AbortController();
  let begun = 0;
  const all = Array.from({ length: 1_000 }, async () => {
    await pace(stop.signal);
    if (!stop.signal.aborted) begun += 1;
  });
  const counts: number[] = [];
  for (let second = 0; second < 3; second += 1) {
    await clock.advance(second === 0 ? 0 : 1_000);
    await new Promise(setImmediate);
    counts.push(begun);
  }
  expect(counts).toEqual([200, 400, 600]);
  stop.abort();
  await Promise.all(all);
  expect(begun).toBe(600);
});
