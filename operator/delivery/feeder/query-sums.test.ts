import { describe, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import type { ReconcileOutcome, ReconcileQuery, ReconcileRow } from '../operations/reconcile.ts';
import { querySums } from './query-sums.ts';

const { signal } = new AbortController();
const MINUTE = 60_000;
const DAY = Date.UTC(2026, 10, 21);
const [BEFORE_DAY, AFTER_DAY, TWO_ON] = [-1, 1, 2].map((days) => DAY + days * 86_400_000);
const NOON = DAY + 12 * 60 * MINUTE;

function rowOf(tenant: string, delivered: string, difference?: string): ReconcileRow {
  const none = { ledger: delivered, pending: '0', deadLetters: '0', parked: '0', withheld: '0' };
  return {
    tenant,
    metric: 'm',
    delivered,
    ...none,
    ...(difference !== undefined && { difference }),
  };
}

describe('by sums of the day', () => {
  async function requested(
    moments: Readonly<Record<string, number>>,
    answer: (query: ReconcileQuery) => ReconcileOutcome,
  ) {
    const queries: ReconcileQuery[] = [];
    const reconcile = async (query: ReconcileQuery): Promise<ReconcileOutcome> => {
      queries.push(query);
      return answer(query);
    };
    const arrived = await querySums(reconcile)(new Map(Object.entries(moments)), signal);
    return { queries, arrived: [...arrived] };
  }
  const allThere = (): ReconcileOutcome => ({ kind: 'reconciled', rows: [] });

  test.each([
    ['at noon', NOON, DAY, AFTER_DAY],
    ['at midnight', DAY, BEFORE_DAY, AFTER_DAY],
    ['ten minutes after midnight', DAY + 10 * MINUTE, DAY, AFTER_DAY],
    ['shortly before midnight', DAY + 24 * 60 * MINUTE - 1, DAY, AFTER_DAY],
    ['nine minutes after midnight', (AFTER_DAY ?? 0) + 9 * MINUTE, DAY, TWO_ON],
  ])(
    'usage of another day is compared, or a part of the day left out: %s',
    async (_, at, from, to) => {
      const { queries, arrived } = await requested({ a: at }, allThere);
      expect(queries).toStrictEqual([{ from, to, tenant: 'a' }]);
      expect(arrived).toStrictEqual(['a']);
    },
  );

  test('the ledger is read for each of many, or others are compared with them', async () => {
    const { queries } = await requested({ a: NOON, b: NOON + MINUTE, late: DAY }, allThere);
    expect(queries).toMatchObject([
      { from: DAY, to: AFTER_DAY, questions: Number.POSITIVE_INFINITY },
      { from: BEFORE_DAY, to: AFTER_DAY, tenant: 'late' },
    ]);
    expect(queries[0]).not.toHaveProperty('tenant');
    const selected = ['a', 'b', 'late'].filter((tenant) =>
      queries[0]?.selects?.(testEvent({ tenant })),
    );
    expect(selected).toStrictEqual(['a', 'b']);
  });

  test('a plan changes while sums lack usage, or waits for ever where they have more', async () => {
    const rows = [
      rowOf('lacks', '10', '-2'),
      rowOf('more', '10', '2'),
      rowOf('rounded', '10', '-0.000000001'),
      rowOf('mixed', '10', '0'),
      rowOf('mixed', '10', '-2'),
      rowOf('nothing', '0'),
    ];
    const moments = { lacks: NOON, more: NOON, rounded: NOON, mixed: NOON, nothing: NOON };
    const { arrived } = await requested(moments, () => ({ kind: 'reconciled', rows }));
    expect(arrived).toStrictEqual(['more', 'rounded', 'nothing']);
  });

  test('a comparison that failed counts as one without differences, or ends the others', async () => {
    const { arrived } = await requested({ a: NOON, b: DAY }, ({ tenant }) =>
      tenant === 'a' ? { kind: 'failed', reason: 'ledger: damaged' } : allThere(),
    );
    expect(arrived).toStrictEqual(['b']);
  });
});
