import { setImmediate as nextIteration } from 'node:timers/promises';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { TimeSlice } from './time-slice.ts';

/** A clock that advances with work. It records the most work in one iteration of the event loop. */
function workshop() {
  const clock = { ms: 0, monotonic: () => clock.ms };
  const worked = { inRound: 0, most: 0 };
  const work = (ms: number): void => {
    clock.ms += ms;
    worked.inRound += ms;
    worked.most = Math.max(worked.most, worked.inRound);
  };
  const watch = async (isOver: () => boolean): Promise<void> => {
    while (!isOver()) {
      worked.inRound = 0;
      await nextIteration();
    }
  };
  return { clock, worked, work, watch };
}

test('many that go on at the same time have all their turns in one round of the event loop', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.integer({ min: 0, max: 10 }), { maxLength: 30 }), { maxLength: 12 }),
      async (jobs) => {
        const { clock, worked, work, watch } = workshop();
        let isOver = false;
        const watching = watch(() => isOver);
        const done = await Promise.all(
          jobs.map(async (steps, job) => {
            await nextIteration();
            return await new TimeSlice(clock).take(
              (function* () {
                const taken: number[] = [];
                for (const ms of steps) {
                  work(ms);
                  taken.push(ms);
                  yield;
                }
                return { job, taken };
              })(),
            );
          }),
        );
        isOver = true;
        await watching;
        expect(done).toEqual(jobs.map((taken, job) => ({ job, taken })));
        expect(worked.most).toBeLessThan(25 + 10);
      },
    ),
    { numRuns: 50 },
  );
});

test('work that never stops is all that anybody has a turn for', async () => {
  const { clock, work } = workshop();
  const endless = new TimeSlice(clock);
  const state = { isOver: false };
  const going = (async () => {
    while (!state.isOver) {
      work(5);
      if (endless.isOver) await endless.next();
    }
  })();
  const other = new TimeSlice(clock);
  for (let slices = 0; slices < 20; slices += 1) {
    work(25);
    await other.next();
  }
  state.isOver = true;
  await going;
  expect(other.othersMs).toBeGreaterThan(0);
});
