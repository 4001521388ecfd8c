import { expect, test } from 'vitest';
import { QueuedArrivals } from '../../kubernetes/live-view.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { Standstill } from './standstill.ts';
import { clockAt } from './testing/harness.ts';

test('a restart does not resume a watch after what waited while the journal was made', async () => {
  const clock = clockAt(0);
  const arrivals = new QueuedArrivals(createCapturingLogger());
  let version = 1;
  let known = 1;
  const scopes = {
    watchPoints: () => ({ pods: { resourceVersion: `${version}`, knownAt: clock.now() } }),
  };
  const still = new Standstill([], { scopes, arrivals, clock });
  version = 2;
  arrivals.take(() => {
    known = 2;
  });
  expect(still.points['pods']?.resourceVersion).toBe('1');
  expect(known).toBe(1);
  await still.release(new TimeSlice(clock));
  expect(known).toBe(2);
});
