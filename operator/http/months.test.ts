import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { decimalFromNanos, nanosFromDecimal, parseDecimal } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import { monthSpan, MonthSums } from '../billing/usage/month-sums.ts';
import { UsageSums } from '../billing/usage/usage-sums.ts';
import { API_TOKEN as token, NOW, startTestServer } from './testing/test-server.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** One event of two units for each day between two days of a month, both included. */
function daily(month: number, first: number, last: number, quantity = '2'): UsageEvent[] {
  return Array.from({ length: last - first + 1 }, (_, index) =>
    testEvent({ tenant: 'acme', quantity, windowStart: Date.UTC(2026, month, first + index, 5) }),
  );
}

async function getMonth(events: readonly UsageEvent[], path: string) {
  const ledger = createMemoryLedger();
  await ledger.append({ events });
  const usageDirectory = await mkdtemp(join(tmpdir(), 'months-'));
  await using server = await startTestServer({ ledger, usageDirectory });
  const answer = await server.call('GET', path, { token });
  await server.close();
  await rm(usageDirectory, { recursive: true });
  return answer;
}

describe('a month', () => {
  test('that is under way is not held against the whole month before (21 days look like a loss against 31)', async () => {
    const events = [...daily(9, 1, 31), ...daily(10, 1, 21)];
    const { json } = await getMonth(events, '/api/v1/months/2026-11');
    expect(json).toMatchObject({
      over: false,
      complete_days: 20,
      before: '2026-10',
      measured_since: expect.stringMatching(/^2026-10-01T0/),
      rows: [{ tenant: 'acme', quantity: 42, before: 62, change: 0, compared_with: 40 }],
    });
  });

  test('in which measuring began at 05:37 was not measured from 05:00', async () => {
    const first = testEvent({ tenant: 'acme', windowStart: Date.UTC(2026, 10, 3, 5, 37) });
    for (const path of ['/api/v1/months/2026-11', '/api/v1/gaps', '/api/v1/usage']) {
      const { json } = await getMonth([first, ...daily(10, 4, 20)], path);
      expect(json, path).toMatchObject({ measured_since: '2026-11-03T05:37:00Z' });
    }
  });

  test('is not held against a month that was measured in part, or 0 that was not measured', async () => {
    const events = [...daily(9, 28, 31), ...daily(10, 1, 20)];
    const { json } = await getMonth(events, '/api/v1/months/2026-11');
    const { rows } = json as { readonly rows: readonly object[] };
    expect(rows).toMatchObject([{ quantity: 40, before: 8 }]);
    expect(rows.flatMap(Object.keys)).not.toContain('change');
    const october = await getMonth(events, '/api/v1/months/2026-10');
    expect(october.json).toMatchObject({ rows: [expect.not.objectContaining({ before: 0 })] });
  });

  test('that is over is held against the whole month before it, and has no forecast', async () => {
    const { json } = await getMonth(
      [...daily(8, 1, 30), ...daily(9, 1, 31)],
      '/api/v1/months/2026-10',
    );
    expect(json).toMatchObject({ over: true, rows: [{ quantity: 62, before: 60, change: 2 }] });
    expect(JSON.stringify(json)).not.toContain('forecast');
  });

  test('shows what was used less as a change below zero', async () => {
    const { json } = await getMonth(
      [...daily(8, 1, 30), ...daily(9, 1, 1)],
      '/api/v1/months/2026-10',
    );
    expect(json).toMatchObject({ rows: [{ quantity: 2, before: 60, change: -58 }] });
  });

  test('goes on in its forecast as the last seven whole days, to the last digit', async () => {
    const events = [...daily(9, 1, 31), ...daily(10, 1, 13, '9'), ...daily(10, 14, 20, '1')];
    const { text } = await getMonth(events, '/api/v1/months/2026-11');
    // 9 days and 14 h 55 min are left at 09:05 of the 21st.
    const left = 10 * DAY - 9 * HOUR - 5 * 60_000;
    const expected = 13 * 9 + 7 + left / DAY;
    const [, forecast = ''] = /"forecast":([\d.]+)/.exec(text) ?? [];
    expect(Number(forecast)).toBeCloseTo(expected, 8);
    expect(forecast.split('.')[1]?.length).toBeGreaterThan(6);
  });

  test('has no forecast out of a few hours', async () => {
    const { text } = await getMonth(
      [testEvent({ windowStart: NOW - HOUR })],
      '/api/v1/months/2026-11',
    );
    expect(text).not.toContain('forecast');
    // The month before was not measured: that is no change, and not 0.
    expect(text).not.toMatch(/"(before|change|compared_with)":\d/);
  });

  test.each([
    ['/api/v1/months/2026-13', 'not a month'],
    ['/api/v1/months/november', 'such as 2026-11'],
    ['/api/v1/months/2026-12', 'has not begun'],
    ['/api/v1/months/2026-11?group_by=tenant,day', 'not split by time'],
    ['/api/v1/months/2026-11?from=2026-11-01', 'unknown query parameter'],
  ])('%s is refused, saying why', async (path, reason) => {
    const { status, text } = await getMonth([], path);
    expect(status).toBe(400);
    expect(text).toContain(reason);
  });

  test('comes to the same as the sums of its days, whatever its events', () => {
    const arrivals = fc.array(
      fc.record({
        at: fc.integer({ min: Date.UTC(2026, 9, 1), max: NOW }),
        nanos: fc.bigInt({ min: 0n, max: 10n ** 18n }),
      }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(arrivals, (all) => {
        const span = monthSpan(2026, 10, NOW, Date.UTC(2026, 9, 1));
        const month = new MonthSums(span, [], 10);
        const plain = new UsageSums([], 10);
        for (const { at, nanos } of all) {
          const item = {
            ...testEvent({ windowStart: at }),
            quantity: decimalFromNanos(nanos),
          };
          month.add(item);
          if (at >= span.from) plain.add(item);
        }
        expect(month.rows()[0]?.quantity ?? '0').toBe(plain.rows()[0]?.quantity ?? '0');
        const before = all.filter(({ at }) => at < span.from);
        const sum = before.reduce((total, { nanos }) => total + nanos, 0n);
        expect(nanosOf(month.rows()[0]?.before ?? '0')).toBe(sum);
      }),
    );
  });
});

function nanosOf(text: string): bigint {
  const decimal = parseDecimal(text);
  if (decimal === undefined) throw new RangeError(`quantity: not a decimal: "${text}"`);
  return nanosFromDecimal(decimal);
}

describe('sums by window', () => {
  test('are those of each window, so that an hour can be distinguished', async () => {
    const events = [0, 1].map((minute) =>
      testEvent({ windowStart: NOW - HOUR + minute * 60_000, quantity: '1.5' }),
    );
    const path = `/api/v1/usage?group_by=window&from=2026-11-21T08:00:00Z&to=2026-11-21T09:00:00Z`;
    const { json } = await getMonth(events, path);
    expect(json).toMatchObject({
      totals: [{ metric: 'tenant_instance_hours', quantity: 3, events: 2 }],
      rows: [
        { window: '2026-11-21T08:05:00Z', quantity: 1.5 },
        { window: '2026-11-21T08:06:00Z', quantity: 1.5 },
      ],
    });
  });

  test('of a month are refused, for each is read event by event', async () => {
    const { status, text } = await getMonth([], '/api/v1/usage?group_by=window');
    expect(status).toBe(400);
    expect(text).toContain('at most 25 hours');
  });
});
