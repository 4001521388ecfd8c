import { afterEach, expect, test } from 'vitest';
import { type FakeLago, startFakeLago } from './lago/lago.ts';

let lago: FakeLago | undefined;

afterEach(() => lago?.close());

test('a clock that is turned back, or to no time, is refused, and the stand-in goes on', async () => {
  lago = await startFakeLago({ apiKey: 'key' });
  const { url } = lago;
  const turnClock = async (now: string) => {
    const response = await fetch(`${url}/_fake/clock`, {
      method: 'POST',
      body: JSON.stringify({ now }),
    });
    return [response.status, await response.text()] as const;
  };
  expect(await turnClock('2027-02-01T00:10:00Z')).toStrictEqual([204, '']);
  expect(await turnClock('soon')).toStrictEqual([400, '{"message":"now: not a time: \\"soon\\""}']);
  const [status, text] = await turnClock('2027-01-01T00:00:00Z');
  expect(status).toBe(400);
  expect(text).toContain('cannot be turned back from 2027-02-01T00:10:00.000Z');
  expect(await (await fetch(`${url}/_fake/account`)).json()).toStrictEqual({
    invoices: [],
    events: [],
  });
});
