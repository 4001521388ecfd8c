import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { addToMarks, type AgeMark, agedMark, closeMarks, markAge } from './age-marks.ts';
import { addDelivered, applyInvoices, emptyBalances, isMismatch } from './invoice-balance.ts';

const DAY_MS = 86_400_000;
const START = Date.UTC(2027, 0, 1);
const FROM_NOW_ON = Number.POSITIVE_INFINITY;
const METRIC = 'tenant_instance_hours';

test('whatever is used and closed, marks have all that is open by its age, and nothing younger is aged', () => {
  // Usage is delivered when its window has closed: it always begins before now.
  const step = fc.record({
    wait: fc.integer({ min: 0, max: 3 * DAY_MS }),
    back: fc.integer({ min: 1, max: 30 * DAY_MS }),
    nanos: fc.bigInt({ min: -3n, max: 9n }),
    closes: fc.option(fc.integer({ min: 1, max: 20 * DAY_MS }), { freq: 5 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      let now = START;
      let marks: readonly AgeMark[] = [];
      let open: { readonly at: number; readonly nanos: bigint }[] = [];
      let until = 0;
      const sumBefore = (moment: number): bigint =>
        open.filter(({ at }) => at < moment).reduce((sum, { nanos }) => sum + nanos, 0n);
      for (const { wait, back, nanos, closes } of steps) {
        now += wait;
        const at = Math.max(until, now - back);
        open.push({ at, nanos });
        marks = addToMarks(marks, at, nanos);
        if (closes !== null && now - closes > until) {
          until = now - closes;
          marks = closeMarks(marks, until, sumBefore(until));
          open = open.filter((one) => one.at >= until);
        }
        marks = markAge(marks, sumBefore(FROM_NOW_ON), now);
        expect(marks.length).toBeLessThanOrEqual(10);
        for (const mark of marks.filter((one) => one.at < now)) {
          expect(mark.before).toBe(sumBefore(mark.at));
        }
        const aged = agedMark(marks, FROM_NOW_ON, now);
        if (aged === undefined) continue;
        expect(aged.at).toBeLessThanOrEqual(now - 40 * DAY_MS);
        expect(aged.before).toBe(sumBefore(aged.at));
      }
    }),
  );
});

test('a mark is no more than five days from the next while there are looks', () => {
  let marks: readonly AgeMark[] = [];
  for (let day = 0; day <= 100; day += 1) marks = markAge(marks, 7n, START + day * DAY_MS);
  expect(agedMark(marks, FROM_NOW_ON, START + 100 * DAY_MS)).toStrictEqual({
    at: START + 60 * DAY_MS,
    before: 7n,
  });
  expect(agedMark(marks, START + 58 * DAY_MS, START + 100 * DAY_MS)).toBeUndefined();
  expect(marks.map(({ at }) => (at - START) / DAY_MS)).toStrictEqual([
    60, 65, 70, 75, 80, 85, 90, 95, 100,
  ]);
});

/** A tenant whose usage of 1 January was looked at each day of 50, while nothing was invoiced. */
function agedTenant(isComplete: boolean, open: readonly { readonly from: number }[] = []) {
  const tenant = emptyBalances(isComplete);
  addDelivered(tenant, { metric: METRIC, at: START, nanos: 5_000_000_000n }, START);
  for (let day = 1; day <= 50; day += 1) {
    const now = START + day * DAY_MS;
    applyInvoices(tenant, { invoices: [], open, since: 0 }, new Map(), now);
  }
  return tenant;
}

test('an invoice that is made after all makes up for usage that none covered for 45 days', () => {
  const tenant = agedTenant(true);
  const balance = tenant.metrics.get(METRIC);
  expect(balance).toMatchObject({ missing: 5_000_000_000n, open: 0n });
  expect(balance && isMismatch(balance)).toBe(true);
  const until = START + 59 * DAY_MS;
  const line = { metric: METRIC, from: START, to: until, quantity: '5' };
  const invoices = [{ id: 'late', finalizedAt: until, until, lines: [line] }];
  const closing = new Map([[METRIC, { until, staying: 0n, late: 0n }]]);
  applyInvoices(tenant, { invoices, open: [], since: 0 }, closing, until);
  expect(tenant.metrics.get(METRIC)).toMatchObject({ missing: 0n, open: 0n });
});

test('nothing is aged that a running period covers, or of a tenant of whom not everything is known', () => {
  expect(agedTenant(true, [{ from: START }]).metrics.get(METRIC)).toMatchObject({ missing: 0n });
  expect(agedTenant(false).metrics.get(METRIC)).toMatchObject({ missing: 0n });
});
