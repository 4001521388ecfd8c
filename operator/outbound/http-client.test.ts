import { expect, test } from 'vitest';
import { retryAfterMs } from './http-client.ts';

const NOW = Date.UTC(2026, 10, 21, 9, 0, 0);

test.each([
  ['120', 120_000],
  [' 0 ', 0],
  ['Sat, 21 Nov 2026 09:00:30 GMT', 30_000],
  ['Sat, 21 Nov 2026 08:00:00 GMT', 0],
  ['soon', undefined],
  ['', undefined],
  [undefined, undefined],
  ['1e9', undefined],
])('Retry-After %j demands %j ms', (header, ms) => {
  expect(retryAfterMs(header, NOW)).toBe(ms);
});
