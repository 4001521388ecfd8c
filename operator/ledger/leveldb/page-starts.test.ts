import * as fc from 'fast-check';
import { ClassicLevel } from 'classic-level';
import { afterEach, expect, test, vi } from 'vitest';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { PAGE_EVENTS, PageStarts } from './page-starts.ts';

const used = useLedgers();
afterEach(() => {
  vi.restoreAllMocks();
});

const windowAt = (index: number): number => TEST_WINDOW_START + index * TEST_WINDOW_MS;

async function idsOf(ledger: Ledger, window: number): Promise<string[]> {
  const ids: string[] = [];
  for await (const { event } of ledger.scan(windowAt(window), windowAt(window + 1))) {
    ids.push(event.id);
  }
  return ids;
}

test('a question about one window does not read the whole day again', async () => {
  const ledger = await used.open(await used.directory());
  const windows = Array.from({ length: 5 }, (_, index) => testWindow(windowAt(index), PAGE_EVENTS));
  for (const events of windows) await ledger.append({ events });
  const reads = vi.spyOn(ClassicLevel.prototype, 'iterator');
  expect(await idsOf(ledger, 1)).toEqual(windows[1]?.map(({ id }) => id));
  expect(reads).toHaveBeenCalledTimes(5);
  expect(await idsOf(ledger, 3)).toEqual(windows[3]?.map(({ id }) => id));
  expect(reads).toHaveBeenCalledTimes(6);
});

test('an event that comes late for a window is found although the window was asked for before', async () => {
  const ledger = await used.open(await used.directory());
  await ledger.append({ events: testWindow(windowAt(0), 10) });
  await ledger.append({ events: testWindow(windowAt(1), PAGE_EVENTS) });
  expect(await idsOf(ledger, 0)).toHaveLength(10);
  const late = testEvent({ id: 'late', windowStart: windowAt(0) });
  await ledger.append({ events: [late] });
  expect(await idsOf(ledger, 0)).toHaveLength(11);
  await ledger.append({ events: testWindow(windowAt(2), PAGE_EVENTS) });
  expect((await idsOf(ledger, 0)).at(-1)).toBe('late');
});

test('no page is passed over that has an event of the range', () => {
  const times = fc.array(fc.integer({ min: 0, max: 50 }), {
    minLength: PAGE_EVENTS,
    maxLength: PAGE_EVENTS,
    size: 'max',
  });
  fc.assert(
    fc.property(times, fc.integer({ min: -5, max: 55 }), fc.nat(20), (starts, from, length) => {
      const pages = new PageStarts();
      pages.learn(PAGE_EVENTS + 1, 2 * PAGE_EVENTS, starts);
      const to = from + length;
      const isPassedOver = pages.hasNone(PAGE_EVENTS + 1, from, to);
      expect(isPassedOver && starts.some((start) => start >= from && start < to)).toBe(false);
    }),
    { numRuns: 50 },
  );
});

test('a page that was read in part is not taken for the whole', () => {
  const pages = new PageStarts();
  pages.learn(1, PAGE_EVENTS - 1, [10]);
  pages.learn(2, PAGE_EVENTS, [10]);
  expect(pages.hasNone(1, 20, 30)).toBe(false);
  pages.learn(1, PAGE_EVENTS, [10]);
  expect(pages.hasNone(1, 20, 30)).toBe(true);
  pages.forgetBefore(PAGE_EVENTS + 1);
  expect(pages.hasNone(1, 20, 30)).toBe(false);
});
