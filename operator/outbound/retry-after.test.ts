import { expect, test } from 'vitest';
import { redactUrl } from './redact.ts';
import { retryAfterMs } from './retry-after.ts';

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
])('Retry-After %j asks for %j ms', (header, ms) => {
  expect(retryAfterMs(header, NOW)).toBe(ms);
});

test('a URL in a log line shows no credentials and no query', () => {
  expect(redactUrl('https://user:pass@host:8443/path?key=canary#f')).toBe('https://host:8443/path');
  expect(redactUrl('canary')).toBe('(not a URL)');
});
