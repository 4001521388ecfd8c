import { expect, test } from 'vitest';
import { hasOpenGaps } from './open-gaps.ts';

const gap = (scope: string, source = 'pods', to = 1_000) => ({
  source,
  scope,
  from: 0,
  to,
  reason: 'cannot be read',
});

test('a tenant is offboarded while a failed watch still hides its last usage', () => {
  expect(hasOpenGaps('acme', [gap('pods')], [], 500)).toBe(true);
});

test('a gap that nothing can fill keeps a tenant subscribed for ever', () => {
  expect(hasOpenGaps('acme', [gap('pods', 'metrics')], [], 500)).toBe(false);
  expect(hasOpenGaps('acme', [gap('pods', 'pods', 400)], [], 500)).toBe(false);
  expect(hasOpenGaps('acme', [gap('tenant-of-old', 'collector')], [], 500)).toBe(false);
});
