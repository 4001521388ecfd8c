import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { IdFilter } from './id-filter.ts';
import { idKey } from './keys.ts';

const ledgers = useLedgers();

test('the filter never denies an id that it was given, and seldom admits another', () => {
  const filter = new IdFilter();
  const keys = Array.from({ length: 100_000 }, () => idKey(randomUUID()));
  for (const key of keys) filter.add(key);
  expect(keys.every((key) => filter.mayHave(key))).toBe(true);
  const strangers = Array.from({ length: 20_000 }, () => idKey(randomUUID()));
  expect(strangers.filter((key) => filter.mayHave(key)).length).toBeLessThan(200);
});

test('ids stored before a restart, and before a new segment, are still found', async () => {
  const directory = await ledgers.directory();
  const limits = { events: 40, bytes: Number.MAX_SAFE_INTEGER };
  const windows = Array.from({ length: 6 }, (_, index) => [
    ...testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 9),
    testEvent({ id: `own-${index}`, windowStart: TEST_WINDOW_START + index * TEST_WINDOW_MS }),
  ]);
  const first = await ledgers.open(directory, { segmentLimits: limits });
  for (const events of windows) await first.append({ events });
  await first.close();

  const second = await ledgers.open(directory, { segmentLimits: limits });
  for (const events of windows) {
    const repeated = await second.append({ events });
    expect(repeated).toMatchObject({ outcomes: events.map(() => 'duplicate') });
  }
  expect(second.head()).toBe(60);
});
