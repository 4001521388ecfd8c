import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expiredStretch, firstProgress, nextWindow, type Progress } from './schedule.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Sizes that divide an hour. */
const sizes = fc.constantFrom(
  10_000,
  15_000,
  30_000,
  MINUTE,
  90_000,
  5 * MINUTE,
  20 * MINUTE,
  HOUR,
);

describe('the next window', () => {
  test('follows the last without a hole or an overlap, aligned, whatever sizes are configured', () => {
    fc.assert(
      fc.property(sizes, fc.array(sizes, { maxLength: 30 }), (first, wanted) => {
        let progress: Progress = firstProgress(1_700_000_000_123, first);
        for (const size of wanted) {
          const window = nextWindow(progress, size);
          expect(window.start).toBe(progress.end);
          expect(window.start % window.sizeMs).toBe(0);
          expect(window.end - window.start).toBe(window.sizeMs);
          expect([progress.sizeMs, size]).toContain(window.sizeMs);
          progress = { end: window.end, sizeMs: window.sizeMs };
        }
      }),
    );
  });

  test('has the new size within the hour', () => {
    fc.assert(
      fc.property(sizes, sizes, (from, to) => {
        const begun = firstProgress(1_700_000_000_123, from);
        let progress: Progress = begun;
        while (nextWindow(progress, to).sizeMs !== to) {
          progress = { ...progress, end: nextWindow(progress, to).end };
        }
        expect(progress.end - begun.end).toBeLessThan(HOUR);
      }),
    );
  });
});

describe('the first window', () => {
  test('is the first full one after the start', () => {
    expect(firstProgress(61_000, MINUTE).end).toBe(120_000);
    expect(firstProgress(120_000, MINUTE).end).toBe(120_000);
  });
});

describe('what is too old', () => {
  const progress = { end: 10 * HOUR, sizeMs: MINUTE };

  test('is everything that ended before MAX_BACKFILL, in whole windows', () => {
    const expired = expiredStretch(progress, MINUTE, 17 * HOUR + 30_000, 6 * HOUR);
    expect(expired).toMatchObject({ start: 10 * HOUR, end: 11 * HOUR });
  });

  test('is nothing as long as MAX_BACKFILL reaches back', () => {
    expect(expiredStretch(progress, MINUTE, 16 * HOUR, 6 * HOUR)).toBeUndefined();
  });

  test('is never the window that has just ended, even with MAX_BACKFILL=0', () => {
    const now = progress.end + MINUTE + 3000;
    expect(expiredStretch(progress, MINUTE, now, 0)).toBeUndefined();
  });
});
