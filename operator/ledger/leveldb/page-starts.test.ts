import * as fc from 'fast-check';
import { ClassicLevel } from 'classic-level';
import { afterEach, expect, test, vi } from 'vitest';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { encodeEvent } from '../../model/event.ts';
import { windowStartOf } from './event-walk.ts';
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

async function withFiveWindows(directory: string, options = {}) {
  const ledger = await used.open(directory, options);
  const windows = Array.from({ length: 5 }, (_, index) => testWindow(windowAt(index), PAGE_EVENTS));
  for (const events of windows) await ledger.append({ events });
  return { ledger, windows };
}

test('a question about one window reads the whole day', async () => {
  const { ledger, windows } = await withFiveWindows(await used.directory());
  const reads = vi.spyOn(ClassicLevel.prototype, 'iterator');
  expect(await idsOf(ledger, 1)).toEqual(windows[1]?.map(({ id }) => id));
  expect(await idsOf(ledger, 3)).toEqual(windows[3]?.map(({ id }) => id));
  expect(reads).toHaveBeenCalledTimes(2);
});

test('the first question after a start reads the whole day', async () => {
  const directory = await used.directory();
  const before = await withFiveWindows(directory);
  await before.ledger.append({ events: [testEvent({ id: 'late', windowStart: windowAt(1) })] });
  await before.ledger.close();
  const ledger = await used.open(directory);
  const more = testWindow(windowAt(7), PAGE_EVENTS + 100);
  await ledger.append({ events: more });
  const reads = vi.spyOn(ClassicLevel.prototype, 'iterator');
  expect(await idsOf(ledger, 1)).toEqual([
    ...(before.windows[1] ?? []).map(({ id }) => id),
    'late',
  ]);
  expect(reads).toHaveBeenCalledTimes(3);
  expect(await idsOf(ledger, 7)).toEqual(more.map(({ id }) => id));
});

test('every question about a day that is over reads it as a whole', async () => {
  const directory = await used.directory();
  const sealed = { segmentLimits: { events: 5 * PAGE_EVENTS, bytes: Infinity } };
  const before = await withFiveWindows(directory, sealed);
  await before.ledger.append({ events: testWindow(windowAt(9), 10) });
  await before.ledger.close();
  const ledger = await used.open(directory, sealed);
  expect(await idsOf(ledger, 1)).toHaveLength(PAGE_EVENTS);
  const reads = vi.spyOn(ClassicLevel.prototype, 'iterator');
  expect(await idsOf(ledger, 3)).toEqual(before.windows[3]?.map(({ id }) => id));
  expect(reads).toHaveBeenCalledTimes(1);
});

test('an event that comes late for a window is found although the window was read before', async () => {
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

test('events whose numbers do not follow each other are taken for a whole page', () => {
  fc.assert(
    fc.property(fc.nat(PAGE_EVENTS - 1), fc.integer({ min: 0, max: 2 }), (at, kind) => {
      const pages = new PageStarts();
      // A skipped event, a repeated event, or neither.
      for (let sequence = 1; sequence <= 2 * PAGE_EVENTS; sequence += 1) {
        if (sequence === at + 1 && kind === 0) continue;
        pages.note(sequence, 10);
        if (sequence === at + 1 && kind === 1) pages.note(sequence, 25);
      }
      expect(pages.hasNone(1, 20, 30)).toBe(kind === 2);
      expect(pages.hasNone(PAGE_EVENTS + 1, 20, 30)).toBe(true);
    }),
    { numRuns: 40 },
  );
});

test('the window of a stored event is read from a property of the same name', () => {
  const event = testEvent({ windowStart: windowAt(3) });
  const named = {
    ...event,
    tenant: '","window_start":"2020-01-01T00:00:00Z","',
    properties: { window_start: '2020-01-01T00:00:00Z' },
  };
  const plain = { ...event, tenant: '"window_start":"2020-01-01T00:00:00Z"' };
  for (const each of [event, named, plain, { properties: named.properties, ...event }]) {
    const body = Buffer.from(encodeEvent(each));
    expect(windowStartOf({ sequence: 1, value: body, body })).toBe(windowAt(3));
  }
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
