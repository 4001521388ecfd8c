import { describe, expect, test } from 'vitest';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { createManualClock } from './testing/manual-clock.ts';
import { SourceStateTracker } from './watch-health.ts';

function store() {
  const clock = createManualClock(0);
  const state = new SourceStateTracker(clock, createCapturingLogger(), 'pods');
  return { clock, state };
}

describe('the return of a view', () => {
  test('is when it became whole again, so that what was written meanwhile is waited for', async () => {
    const { clock, state } = store();
    expect(state.returnedAt).toBeUndefined();
    await clock.advance(1_000);
    state.become('synced');
    expect(state.returnedAt).toBe(1_000);
    await clock.advance(60_000);
    state.become('failing', 'connection refused');
    await clock.advance(9_000);
    state.become('synced');
    expect(state.returnedAt).toBe(70_000);
  });

  test('is the first of several that follow each other closely: a watch that fails all the time does not hold up windows for ever', async () => {
    const { clock, state } = store();
    state.become('synced');
    await clock.advance(60_000);
    for (let slice = 0; slice < 20; slice += 1) {
      state.become('failing', 'connection reset');
      await clock.advance(1_000);
      state.become('synced');
      await clock.advance(2_000);
    }
    expect(state.returnedAt).toBe(61_000);
    await clock.advance(60_000);
    state.become('failing', 'connection reset');
    await clock.advance(1_000);
    state.become('synced');
    expect(state.returnedAt).toBe(60_000 + 20 * 3_000 + 61_000);
  });
});
