import type { UsageEvent } from '../../../operator/model/event.ts';
import {
  TEST_WINDOW_MS,
  TEST_WINDOW_START,
  testEvent,
  testWindow,
} from '../../../operator/ledger/testing/events.ts';

/** The end of a window, milliseconds since the epoch. */
export function windowEnd(window: number): number {
  return TEST_WINDOW_START + (window + 1) * TEST_WINDOW_MS;
}

/** What is appended for a window, the same in every process: measured events and a pushed one. */
export function windowEvents(window: number): readonly UsageEvent[] {
  const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
  const pushed = testEvent({ id: `pushed-${window}`, tenant: 'client', windowStart });
  return [...testWindow(windowStart, 1 + (window % 7)), pushed];
}
