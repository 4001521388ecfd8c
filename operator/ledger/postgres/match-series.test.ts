import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../testing/events.ts';
import { encodeEvents } from '../writer.ts';
import { joinEvent } from './event-rows.ts';
import { matchSeries } from './match-series.ts';
import { SeriesCache } from './series-cache.ts';
import { numberedSeries } from './series.ts';

const TENANTS = ['a', 'b', 'c', 'd', 'e'];

/** The events of one window in some order, some of them missing, with one that may be of somebody else in between. */
const window = fc.record({
  tenants: fc.shuffledSubarray(TENANTS),
  sku: fc.option(fc.constantFrom('x', 'y'), { nil: undefined }),
});

test('an event is never taken for one of the series that it mostly follows, in whatever order windows are', () => {
  fc.assert(
    fc.property(fc.array(window, { minLength: 1, maxLength: 8 }), (windows) => {
      const cache = new SeriesCache();
      const keys: string[] = [];
      for (const [index, { tenants, sku }] of windows.entries()) {
        const windowStart = TEST_WINDOW_START + index * TEST_WINDOW_MS;
        const events = tenants.map((tenant, at) =>
          testEvent({ windowStart, tenant, ...(at === 1 && sku !== undefined && { sku }) }),
        );
        for (const encoded of encodeEvents(events)) {
          const match = matchSeries(encoded, cache);
          const isKnown = match.kind === 'known';
          const joined = isKnown ? joinEvent(match.series, match.row) : encoded.event;
          expect(joined).toEqual(encoded.event);
          if (isKnown) continue;
          expect(keys).not.toContain(match.key);
          keys.push(match.key);
          const place = { number: keys.length, key: match.key, lastDay: '2026-11-21' };
          cache.remember(numberedSeries(match.split.series, place));
        }
      }
    }),
  );
});

test('the windows after the first cost no search where they have the same kinds in the same order', () => {
  const cache = new SeriesCache();
  const found = [0, 1, 2, 3].map((index) => {
    const windowStart = TEST_WINDOW_START + index * TEST_WINDOW_MS;
    const events = TENANTS.map((tenant) => testEvent({ windowStart, tenant }));
    return encodeEvents(events).map((encoded, at) => {
      const following = cache.following()?.tenant;
      const match = matchSeries(encoded, cache);
      if (match.kind === 'split') {
        const place = { number: at + 1, key: match.key, lastDay: '2026-11-21' };
        cache.remember(numberedSeries(match.split.series, place));
      }
      return following;
    });
  });
  expect(found[3]).toEqual(TENANTS);
});
