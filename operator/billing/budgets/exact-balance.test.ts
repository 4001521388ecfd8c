import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Budget } from '../../model/budget.ts';
import { BalanceScene, type Step, steps } from './testing/balance-scene.ts';

/** The end of a UTC day, seconds after the first window of other tests. */
const MIDNIGHT = 12 * 3_600;
const END: Step = { does: 'pass', pod: 'a', cores: 1, seconds: 70 };

test.each<[string, Budget['period'], number]>([
  ['a prepaid balance', { kind: 'prepaid' }, -20],
  ['a day', { kind: 'rolling', days: 1 }, MIDNIGHT - 200],
])(
  'of %s is used what the closed windows have, to the last digit, and it is marked when nothing is left at the rate of the newest of them, whatever changes, waits, fails or starts again',
  async (_name, period, begins) => {
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 400 }), async (all, coreSeconds) => {
        await using scene = new BalanceScene(period, begins, coreSeconds);
        await scene.start();
        const check = (): void => expect(scene.problem()).toBeUndefined();
        for (const step of all) await scene.does(step, check);
        await scene.does({ ...END, does: 'mend' }, check);
        await scene.does({ ...END, does: 'flow' }, check);
        await scene.does(END, check);
      }),
      { numRuns: 60 },
    );
  },
  120_000,
);
