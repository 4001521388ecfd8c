import { expect, test } from 'vitest';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { Loop, type NextStep, WakeSignal } from './loop.ts';

test('a signal that is raised while nobody waits is not lost, and wakes once', async () => {
  const wakeSignal = new WakeSignal();
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

/** A loop whose steps end as they are told; `steps` counts them. */
function looping(next: () => NextStep | Promise<NextStep>) {
  const clock = createVirtualClock();
  const state = { steps: 0 };
  const loop = new Loop(clock, async () => {
    state.steps += 1;
    return next();
  });
  return { clock, loop, state };
}
const never = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('ended')), { once: true });
  });

test('a loop that waits sleeps on when there is something to do, or longer than it announced', async () => {
  const { clock, loop, state } = looping(() => ({ kind: 'wait', ms: 1_000, changed: never }));
  loop.start();
  await clock.pass(999);
  expect(state.steps).toBe(1);
  await clock.pass(1);
  expect(state.steps).toBe(2);
  loop.wake();
  await clock.settle();
  expect(state.steps).toBe(3);
  loop.wakeNow();
  await clock.settle();
  expect(state.steps).toBe(4);
  await loop.stop();
  loop.start();
  await clock.pass(10_000);
  expect(state.steps).toBe(4);
});

test('a blocked loop is hurried by what is new, or not by an operator', async () => {
  const { clock, loop, state } = looping(() => ({ kind: 'blocked', ms: 300_000 }));
  loop.start();
  await clock.settle();
  loop.wake();
  await clock.pass(299_999);
  expect(state.steps).toBe(1);
  loop.wakeNow();
  await clock.settle();
  expect(state.steps).toBe(2);
  await clock.pass(300_000);
  expect(state.steps).toBe(3);
  await loop.stop();
});

test('an action runs beside a step, or no step follows it', async () => {
  const outcomes: NextStep[] = [{ kind: 'continue' }, { kind: 'end' }];
  const { clock, loop, state } = looping(() => outcomes.shift() ?? { kind: 'end' });
  loop.start();
  await clock.settle();
  expect(state.steps).toBe(2);
  expect(await loop.pausedWhile(async () => state.steps)).toBe(2);
  await clock.settle();
  expect(state.steps).toBe(3);
  await expect(loop.pausedWhile(() => Promise.reject(new Error('refused')))).rejects.toThrow(
    'refused',
  );
  await clock.settle();
  expect(state.steps).toBe(4);
  await loop.stop();
});
