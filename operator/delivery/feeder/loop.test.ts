import { expect, test } from 'vitest';
import { createWakeSignal } from './loop.ts';

test('a signal that is raised while nobody waits is not lost, and wakes once', async () => {
  const wakeSignal = createWakeSignal();
  const never = new AbortController();
  wakeSignal.raise();
  wakeSignal.raise();
  await wakeSignal.wait(never.signal);
  let woken = false;
  const waiting = wakeSignal.wait(never.signal).then(() => {
    woken = true;
  });
  await new Promise(setImmediate);
  expect(woken).toBe(false);
  never.abort();
  await waiting;
  expect(woken).toBe(true);
});
