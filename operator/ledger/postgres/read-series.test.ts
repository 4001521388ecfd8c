import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { testEvent } from '../testing/events.ts';
import { columnsOf, splitEvent } from './event-rows.ts';
import { SeriesCache } from './series-cache.ts';
import { numberedSeries, seriesKey } from './series.ts';

const dimensions = { tenant_cluster: 'a', billing_mode: 'shared' };

function readWith(cache: SeriesCache, number: number, event: UsageEvent): UsageEvent | undefined {
  const checksum = crc32(encodeEvent(event)) | 0;
  return cache.toRead(number)?.template?.eventWith(checksum, 0, columnsOf(event));
}

test('what the thousands of kinds of usage of a stream have in common is in memory once', () => {
  const cache = new SeriesCache();
  const events = ['x', 'y'].map((sku) => ({ ...testEvent({ sku }), dimensions }));
  const read = events.map((event, number) => {
    cache.rememberRead(number, splitEvent(event).series);
    return readWith(cache, number, event);
  });
  expect(read).toEqual(events);
  expect(read[0]?.dimensions).toBe(read[1]?.dimensions);
  expect(Object.isFrozen(read[0]?.dimensions)).toBe(true);
});

test('a kind of usage that is written differently from now on is not read as it was before', () => {
  const cache = new SeriesCache();
  const event = { ...testEvent(), dimensions, properties: { basis: 'usage' } };
  const { series } = splitEvent(event);
  const place = { number: 1, key: seriesKey(series), lastDay: '2026-11-21' };
  cache.remember(numberedSeries(series, place));
  expect(readWith(cache, 1, event)).toBeUndefined();
  cache.remember(numberedSeries({ ...series, properties: '{"basis":"usage"}' }, place));
  expect(readWith(cache, 1, event)).toEqual(event);
});
