import { expect, test } from 'vitest';
import { systemClock } from '../telemetry/system-clock.ts';
import { Boundaries } from './boundaries.ts';
import { testTenant } from './testing/context.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const { signal } = new AbortController();

test('a price that is attached within an hour divides it, although it was asked after an hour before', async () => {
  let now = 0;
  let looks = 0;
  const at = [HOUR_MS];
  const boundaries = new Boundaries({ ...systemClock, monotonic: () => now }, async () => {
    looks += 1;
    return { kind: 'boundaries', at: [...at] };
  });
  const within = (to: number) => boundaries.within(testTenant(), { from: 0, to }, signal);
  // Shortly after the end of an hour, and a little earlier after the next one.
  now = HOUR_MS + 75_000;
  expect(await within(2 * HOUR_MS)).toStrictEqual({ kind: 'boundaries', at: [HOUR_MS] });
  await within(2 * HOUR_MS);
  expect(looks).toBe(1);
  at.push(HOUR_MS + 25 * MINUTE_MS);
  now = 2 * HOUR_MS + 60_000;
  expect(await within(2 * HOUR_MS)).toMatchObject({ at: [HOUR_MS, HOUR_MS + 25 * MINUTE_MS] });
});

test('tenants that are gone are remembered', async () => {
  let now = 0;
  const boundaries = new Boundaries({ ...systemClock, monotonic: () => now }, async () => {
    return { kind: 'boundaries', at: [] };
  });
  for (let index = 0; index < 100; index += 1) {
    now += MINUTE_MS;
    await boundaries.within({ ...testTenant(), id: `t-${index}` }, { from: 0, to: 1 }, signal);
  }
  expect(boundaries.known).toBeLessThanOrEqual(10);
});
