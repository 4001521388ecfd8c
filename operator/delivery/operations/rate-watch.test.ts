import { expect, test } from 'vitest';
import { RateWatch } from './rate-watch.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';

const MINUTE_MS = 60_000;
const STATUS = { eventsPerSecond: 20, delivered: 0, skipped: 0 };

async function watched(eventsPerMinute: number) {
  const clock = createVirtualClock();
  let head = 0;
  const watch = new RateWatch({ head: () => head }, clock);
  const stopping = new AbortController();
  const running = watch.run(stopping.signal);
  for (let minute = 0; minute < 60; minute += 1) {
    head += eventsPerMinute;
    await clock.pass(MINUTE_MS);
  }
  return {
    watch,
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

test('a rate limit below the rate of usage is reported, with the rate that is needed', async () => {
  const { watch, stop } = await watched(8_220);
  expect(watch.tooSlow(STATUS)).toEqual({ allowed: 20, needed: 140 });
  expect(watch.tooSlow({ ...STATUS, eventsPerSecond: 200 })).toBeUndefined();
  await stop();
});

test('usage that the destination does not want needs no rate', async () => {
  const { watch, stop } = await watched(2_400);
  expect(watch.tooSlow(STATUS)).toEqual({ allowed: 20, needed: 40 });
  expect(watch.tooSlow({ ...STATUS, delivered: 1_000, skipped: 3_000 })).toBeUndefined();
  await stop();
});

test('the rate in use is reported before it is too much', async () => {
  const { watch, stop } = await watched(600);
  expect(watch.rateOf(STATUS)).toEqual({ allowed: 20, needed: 10 });
  expect(watch.tooSlow(STATUS)).toBeUndefined();
  await stop();
});

test('a destination that names no limit counts as fast enough', async () => {
  const { watch, stop } = await watched(1_000_000);
  expect(watch.tooSlow({ delivered: 0, skipped: 0 })).toBeUndefined();
  await stop();
});
