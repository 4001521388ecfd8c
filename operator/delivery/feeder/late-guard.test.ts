import { expect, test } from 'vitest';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import type { LatePolicy } from '../../destinations/late.ts';
import type { LateEvent, LateReport } from '../late/late-billing.ts';
import { createLateGuard } from './late-guard.ts';

const { signal } = new AbortController();
const CLOSED_UNTIL = TEST_WINDOW_START;
/**
 * One second before the invoices end, at their end, of a tenant without invoices, and billed apart
 * already.
 */
const QUEUED = [
  testEvent({ id: 'late', tenant: 'a', windowStart: CLOSED_UNTIL - 1_000 }),
  testEvent({ id: 'in time', tenant: 'a', windowStart: CLOSED_UNTIL }),
  testEvent({ id: 'no invoice', tenant: 'b', windowStart: CLOSED_UNTIL - 1_000 }),
  testEvent({ id: 'apart', tenant: 'a', windowStart: CLOSED_UNTIL - 1_000 }),
].map((event, index) => ({ sequence: index + 1, event }));
const SEPARATE = [4, { kind: 'delivered' }];

async function runGuard(
  late: LatePolicy | undefined,
  change: Partial<Parameters<typeof createLateGuard>[0]> = {},
) {
  const requested: [string, string][] = [];
  const report = await createLateGuard({
    late,
    invoices: {
      closedUntil: async (tenant, metric) => {
        requested.push([tenant, metric]);
        return tenant === 'a' ? CLOSED_UNTIL : undefined;
      },
    },
    deadLetters: { has: () => false },
    changes: { sentAt: ({ event }) => Date.parse(event.window_start) },
    lines: { has: (sequence) => sequence === 4 },
    billing: undefined,
    ...change,
  })(QUEUED, signal);
  return {
    requested,
    ...report,
    results: [...report.results],
    waiting: [...report.waiting],
  };
}

test.each<[LatePolicy | undefined]>([[undefined], ['send']])(
  'late usage is searched for where nobody wants that, or what is billed separately is sent as well: %s',
  async (late) => {
    expect(await runGuard(late)).toStrictEqual({ requested: [], results: [SEPARATE], waiting: [] });
  },
);

test('usage that is late is sent, or held back though it is in time', async () => {
  const { requested, results, ...rest } = await runGuard('hold');
  expect(results).toStrictEqual([
    [
      1,
      {
        kind: 'dead',
        reason:
          'late: invoices until 2026-11-21T09:00:00Z are final, and none of them would include it: enter it there by hand and discard it, or replay it by force to send it anyway',
      },
    ],
    SEPARATE,
  ]);
  expect(rest).toStrictEqual({ waiting: [] });
  expect(requested).toStrictEqual(
    ['a', 'a', 'b'].map((tenant) => [tenant, QUEUED[0]?.event.metric]),
  );
  // What an operator sends once more is let through.
  expect((await runGuard('hold', { deadLetters: { has: () => true } })).results).toEqual([
    SEPARATE,
  ]);
  expect((await runGuard('hold', { invoices: undefined })).results).toEqual([SEPARATE]);
});

test('late usage that is billed separately is sent too, or loses the moment that it counts for', async () => {
  const found: LateEvent[] = [];
  const blocked = { kind: 'retry', reason: 'status 503' } as const;
  const billing = async (events: readonly LateEvent[]): Promise<LateReport> => {
    found.push(...events);
    return { results: new Map([[1, { kind: 'delivered' }]]), waiting: new Set([9]), blocked };
  };
  // A dead letter that is replayed is billed apart as well.
  const report = await runGuard('next', {
    billing,
    deadLetters: { has: () => true },
    changes: { sentAt: ({ sequence }) => (sequence === 2 ? CLOSED_UNTIL : CLOSED_UNTIL - 2_000) },
  });
  expect(report).toMatchObject({
    results: [SEPARATE, [1, { kind: 'delivered' }]],
    waiting: [9],
    blocked,
  });
  expect(found.map(({ sequence, sent }) => [sequence, sent.window_start])).toStrictEqual([
    [1, '2026-11-21T08:59:58Z'],
  ]);
  const none = await runGuard('next', { billing, changes: { sentAt: () => CLOSED_UNTIL } });
  expect([none.results, none.waiting]).toStrictEqual([[SEPARATE], []]);
  expect(found).toHaveLength(1);
  expect((await runGuard('credit')).results).toStrictEqual([SEPARATE]);
});
