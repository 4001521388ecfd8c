import { describe, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryResult, QueuedEvent } from '../delivery-result.ts';
import { createPlanChanges } from '../lanes/plan-changes.ts';
import type { ReconcileOutcome, ReconcileQuery, ReconcileRow } from '../operations/reconcile.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { type AskSumsOptions, createAskSums } from './ask-sums.ts';

const { signal } = new AbortController();
const MINUTE = 60_000;
const DAY = Date.UTC(2026, 10, 21);
const [BEFORE_DAY, AFTER_DAY, TWO_ON] = [-1, 1, 2].map((days) => DAY + days * 86_400_000);
const NOON = DAY + 12 * 60 * MINUTE;

/** What the question needs, on a ledger in memory; a test replaces what it is about. */
function optionsWith(change: Partial<AskSumsOptions> = {}): AskSumsOptions {
  const ledger = change.ledger ?? createMemoryLedger();
  const records = createDeliveryRecords(ledger, 'fake');
  const deadLetters = { has: () => false };
  return {
    destination: {},
    ledger,
    records,
    deadLetters,
    changes: createPlanChanges({
      destination: {},
      planChange: 'now',
      ledger,
      records,
      deadLetters,
      clock: createVirtualClock(),
      isLeaving: () => false,
    }),
    wants: () => true,
    hasPassed: () => true,
    reconcile: async () => ({ kind: 'failed', reason: 'not asked' }),
    verify: async () => ({ results: new Map() }),
    ...change,
  };
}

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
  const totals = async () => ({ kind: 'unsupported', reason: 'the comparison is played' }) as const;

  async function asked(
    moments: Readonly<Record<string, number>>,
    answer: (query: ReconcileQuery) => ReconcileOutcome,
  ) {
    const queries: ReconcileQuery[] = [];
    const reconcile = async (query: ReconcileQuery): Promise<ReconcileOutcome> => {
      queries.push(query);
      return answer(query);
    };
    const ask = createAskSums(optionsWith({ destination: { totals }, reconcile }));
    const arrived = await ask?.(new Map(Object.entries(moments)), signal);
    return { queries, arrived: [...(arrived ?? [])] };
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
      const { queries, arrived } = await asked({ a: at }, allThere);
      expect(queries).toStrictEqual([{ from, to, tenant: 'a' }]);
      expect(arrived).toStrictEqual(['a']);
    },
  );

  test('the ledger is read for each of many, or others are compared with them', async () => {
    const { queries } = await asked({ a: NOON, b: NOON + MINUTE, late: DAY }, allThere);
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
    const { arrived } = await asked(moments, () => ({ kind: 'reconciled', rows }));
    expect(arrived).toStrictEqual(['more', 'rounded', 'nothing']);
  });

  test('a comparison that failed counts as one without differences, or ends the others', async () => {
    const { arrived } = await asked({ a: NOON, b: DAY }, ({ tenant }) =>
      tenant === 'a' ? { kind: 'failed', reason: 'ledger: damaged' } : allThere(),
    );
    expect(arrived).toStrictEqual(['b']);
  });
});

describe('event by event', () => {
  const verifies = {
    verify: async () => ({ kind: 'verified', known: new Set<string>() }) as const,
  };
  const eventAt = (id: string, windowStart: number, tenant = 'a'): UsageEvent =>
    testEvent({ id, tenant, windowStart });
  const delivered: DeliveryResult = { kind: 'delivered' };

  /** What is verified for tenant `a` before noon, and whether it counts as arrived. */
  async function verified(
    events: readonly UsageEvent[],
    change: Partial<AskSumsOptions> = {},
    known: (id: string) => boolean = () => true,
  ) {
    const ledger = change.ledger ?? createMemoryLedger();
    await ledger.append({ events });
    const questions: QueuedEvent[][] = [];
    const verify: AskSumsOptions['verify'] = async (recent) => {
      questions.push([...recent]);
      const answered = recent.filter(({ event }) => known(event.id));
      return { results: new Map(answered.map(({ sequence }) => [sequence, delivered])) };
    };
    const ask = createAskSums(optionsWith({ destination: verifies, ledger, verify, ...change }));
    const arrived = await ask?.(new Map([['a', NOON]]), signal);
    return { ids: questions.flat().map(({ event }) => event.id), arrived: arrived?.has('a') };
  }

  test('nothing is asked where the destination can be asked neither way', () => {
    expect(createAskSums(optionsWith())).toBeUndefined();
  });

  test('other usage is asked after than what was delivered in the last ten minutes before', async () => {
    const events = [
      eventAt('early', NOON - 10 * MINUTE - 1),
      eventAt('first', NOON - 10 * MINUTE),
      eventAt('other', NOON - MINUTE, 'b'),
      eventAt('unwanted', NOON - MINUTE),
      eventAt('parked', NOON - MINUTE),
      eventAt('dead', NOON - MINUTE),
      eventAt('unsent', NOON - MINUTE),
      eventAt('last', NOON - 1_000),
      eventAt('after', NOON),
      eventAt('pending', NOON - MINUTE),
    ];
    const numberOf = (id: string): number => events.findIndex((event) => event.id === id) + 1;
    const ledger = createMemoryLedger();
    const records = createDeliveryRecords(ledger, 'fake');
    const parked = { at: 0, reason: 'no plan', sequence: numberOf('parked') };
    await ledger.writeRecords([
      records.putParked({ ...parked, event: eventAt('parked', NOON - MINUTE) }),
      records.putUnsent([[numberOf('unsent'), numberOf('unsent')]]),
    ]);
    const report = await verified(events, {
      ledger,
      wants: ({ id }) => id !== 'unwanted',
      deadLetters: { has: (sequence) => sequence === numberOf('dead') },
      hasPassed: (sequence) => sequence < numberOf('pending'),
    });
    expect(report).toStrictEqual({ ids: ['first', 'last'], arrived: true });
  });

  test('a plan changes while one event is missing, or while nobody answers', async () => {
    const events = ['x', 'y'].map((id) => eventAt(id, NOON - MINUTE));
    expect((await verified(events, {}, (id) => id === 'x')).arrived).toBe(false);
    expect((await verified([], {})).arrived).toBe(true);
    const blocked = { kind: 'retry', reason: 'status 503' } as const;
    expect(
      (await verified([], { verify: async () => ({ results: new Map(), blocked }) })).arrived,
    ).toBe(false);
  });

  test('old events are asked after instead of the newest hundred', async () => {
    const events = Array.from({ length: 102 }, (_, index) => eventAt(`e${index}`, NOON - MINUTE));
    const { ids } = await verified(events);
    expect(ids).toHaveLength(100);
    expect([ids[0], ids.at(-1)]).toStrictEqual(['e2', 'e101']);
  });

  test('an event is asked after under the time of its window, not the one that it was sent as', async () => {
    const from = NOON - 2 * MINUTE;
    const ledger = createMemoryLedger();
    const options = optionsWith({ ledger });
    const made = [{ before: NOON - MINUTE, from, drainedTo: 0 }];
    await ledger.writeRecords([options.records.putChanges({ tenant: 'a', made })]);
    await options.changes.load();
    const starts: string[] = [];
    await verified([eventAt('moved', NOON - 5 * MINUTE)], {
      ledger,
      changes: options.changes,
      verify: async (recent) => {
        starts.push(...recent.map(({ event }) => event.window_start));
        return { results: new Map() };
      },
    });
    expect(starts).toStrictEqual(['2026-11-21T11:58:00Z']);
  });
});
