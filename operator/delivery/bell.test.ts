import { expect, test } from 'vitest';
import { createBell } from './bell.ts';

test('a ring while nobody waits is not lost, and is heard once', async () => {
  const bell = createBell();
  const never = new AbortController();
  bell.ring();
  bell.ring();
  await bell.wait(never.signal);
  let heard = false;
  const waiting = bell.wait(never.signal).then(() => {
    heard = true;
  });
  await new Promise(setImmediate);
  expect(heard).toBe(false);
  never.abort();
  await waiting;
  expect(heard).toBe(true);
});
