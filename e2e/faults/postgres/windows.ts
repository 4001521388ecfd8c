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

/** The most tenants that are measured in a window. */
const MOST_MEASURED = 7;

/** Everybody who uses anything. */
export const TENANTS: readonly string[] = [
  ...testWindow(TEST_WINDOW_START, MOST_MEASURED).map(({ tenant }) => tenant),
  'client',
];

/** What is appended for a window, the same in every process: measured events and a pushed one. */
export function windowEvents(window: number): readonly UsageEvent[] {
  const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
  const pushed = testEvent({ id: `pushed-${window}`, tenant: 'client', windowStart });
  return [...testWindow(windowStart, 1 + (window % MOST_MEASURED)), pushed];
}

/** What is pushed to one of several processes, the same each time. */
export function pushedTo(label: string, number: number): UsageEvent {
  return testEvent({ id: `pushed-to-${label}-${number}`, tenant: 'client' });
}
