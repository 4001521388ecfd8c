import { describe, expect, test } from 'vitest';
import type { DeliveryOutcome } from '../../destinations/destination.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { BlockReason, DeliveryResult } from '../delivery-result.ts';
import { createParkedTenants } from '../lanes/parked-tenants.ts';
import { createPlanChanges, WAITS_FOR_CHANGE } from '../lanes/plan-changes.ts';
import type { Admission, AdmissionReport } from '../lanes/tenant-provisioner.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { createInFlight } from '../records/in-flight.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { ageProblem, createSendRound, type SendRoundOptions } from './send-round.ts';

const { signal } = new AbortController();
const DAY_MS = 86_400_000;
const DELIVERED: DeliveryResult = { kind: 'delivered' };
const RETRY: BlockReason = { kind: 'retry', reason: 'status 503' };
const HOLD: BlockReason = { kind: 'hold', reason: 'status 401' };
const READY: AdmissionReport = { admissions: new Map() };

/** Events `<tenant>-<number>` of these tenants, numbered from 1. */
const QUEUED = ['a', 'a', 'b', 'c'].map((tenant, index) => ({
  sequence: index + 1,
  event: testEvent({ id: `${tenant}-${index + 1}`, tenant }),
}));

interface Change extends Partial<Pick<SendRoundOptions, 'verify' | 'corrections' | 'late'>> {
  readonly admission?: AdmissionReport;
  readonly ledger?: Ledger;
  readonly maxAgeMs?: number;
}

/** A round whose parts are real but for those that a test replaces. */
function world(change: Change = {}) {
  const clock = createVirtualClock();
  const { ledger = createMemoryLedger(), maxAgeMs } = change;
  const records = createDeliveryRecords(ledger, 'fake');
  const limits = { idMemoryMs: DAY_MS, ...(maxAgeMs !== undefined && { maxAgeMs }) };
  const destination = createFakeDestination({ limits, now: () => clock.now() });
  const parked = createParkedTenants({
    records,
    clock,
    random: () => 0.5,
    onParked: () => undefined,
  });
  const inFlight = createInFlight(ledger, records, clock, DAY_MS);
  const deadLetters = { has: () => false };
  const planChange = 'now' as const;
  const isLeaving = (): boolean => false;
  const changes = createPlanChanges({
    destination,
    planChange,
    ledger,
    records,
    deadLetters,
    clock,
    isLeaving,
  });
  const said: string[] = [];
  const round = createSendRound({
    destination,
    provisioner: {
      admit: async (first) => {
        said.push(`admit ${[...first.keys()].join(' ')}`);
        return change.admission ?? READY;
      },
      refresh: async () => undefined,
      retry: async () => ({ kind: 'done' }),
      review: async () => ({ kind: 'done' }),
      recheck: () => undefined,
      accepted: (tenant) => said.push(`accepted ${tenant}`),
      refused: (tenant, reason) => said.push(`refused ${tenant}: ${reason}`),
      forget: () => undefined,
    },
    changes,
    parked,
    inFlight,
    clock,
    verify: async () => ({ results: new Map() }),
    corrections: async () => new Map(),
    late: async () => ({ results: new Map(), waiting: new Set() }),
    ...change,
  });
  return { clock, records, destination, parked, inFlight, changes, said, round, ledger };
}

describe('is sent though it should not be, or kept back though it could go', () => {
  test('what is billed apart, waits for that, or is settled already', async () => {
    const { round, destination } = world({
      maxAgeMs: 1,
      late: async () => ({
        results: new Map([[1, DELIVERED]]),
        waiting: new Set([3]),
        blocked: RETRY,
      }),
    });
    const { results, blocked } = await round(QUEUED, signal);
    expect(destination.calls).toStrictEqual([]);
    expect([...results].map(([sequence, { kind }]) => [sequence, kind])).toStrictEqual([
      [1, 'delivered'],
      [2, 'dead'],
      [4, 'dead'],
    ]);
    expect(blocked).toStrictEqual(RETRY);
    const young = world({
      maxAgeMs: 365 * DAY_MS,
      late: async () => ({ results: new Map([[1, DELIVERED]]), waiting: new Set([3]) }),
    });
    await young.round(QUEUED, signal);
    expect(young.destination.calls).toStrictEqual([['a-2', 'c-4']]);
    expect(young.said[0]).toBe('admit a c');
  });

  test('what corrects something that is not settled, or never will be', async () => {
    const dead: DeliveryResult = { kind: 'dead', reason: 'never sent' };
    const { round, destination } = world({
      corrections: async () =>
        new Map([
          [1, {}],
          [3, { result: dead }],
        ]),
    });
    const { results } = await round(QUEUED, signal);
    expect(destination.calls).toStrictEqual([['a-2', 'c-4']]);
    expect([...results]).toStrictEqual([
      [3, dead],
      [2, DELIVERED],
      [4, DELIVERED],
    ]);
  });

  test('usage of tenants that are parked, or wait to be provisioned', async () => {
    const parked = { kind: 'parked', reason: 'no plan' } as const;
    const admissions = new Map<string, Admission>([
      ['a', { kind: 'waiting' }],
      ['b', parked],
    ]);
    const { round, destination, said } = world({ admission: { admissions, blocked: RETRY } });
    const { results, blocked } = await round(QUEUED, signal);
    expect(destination.calls).toStrictEqual([['c-4']]);
    expect([...results]).toStrictEqual([
      [3, parked],
      [4, DELIVERED],
    ]);
    expect(blocked).toStrictEqual(RETRY);
    expect(said).toStrictEqual(['admit a b c', 'accepted c']);
    await round(QUEUED, signal, true);
    expect(destination.calls[1]).toStrictEqual(['a-1', 'a-2', 'b-3', 'c-4']);
    expect(said.filter((line) => line.startsWith('admit'))).toHaveLength(1);
  });

  test('anything while an operator must act', async () => {
    const { round, destination } = world({ admission: { ...READY, blocked: HOLD } });
    expect(await round(QUEUED, signal)).toStrictEqual({ results: new Map(), blocked: HOLD });
    expect(destination.calls).toStrictEqual([]);
  });

  test('usage of a plan that is still to come', async () => {
    const { round, destination, parked, changes, records, ledger } = world();
    const current = { mode: 'now', current: 'x', wanted: 'y', wish: 'y' } as const;
    const pending = { before: 0, askedAt: 0, ...current };
    await ledger.writeRecords([records.putChanges({ tenant: 'a', pending, made: [] })]);
    await changes.load();
    const { results } = await round(QUEUED, signal);
    expect(destination.calls).toStrictEqual([['b-3', 'c-4']]);
    expect(results.get(1)).toStrictEqual({ kind: 'parked', reason: WAITS_FOR_CHANGE });
    expect(parked.reasonOf('a')).toBe(WAITS_FOR_CHANGE);
    expect(parked.reasonOf('b')).toBeUndefined();
  });

  test('what could not be put on record as under way', async () => {
    const ledger: Ledger = {
      ...createMemoryLedger(),
      writeRecords: async () => ({ kind: 'failed', cause: 'full', message: 'no room' }),
    };
    const { round, destination } = world({ ledger });
    expect(await round(QUEUED, signal)).toStrictEqual({
      results: new Map(),
      blocked: { kind: 'retry', reason: 'no room' },
    });
    expect(destination.calls).toStrictEqual([]);
  });
});

describe('of what may have been sent long ago', () => {
  /** The first event was sent without an answer, and its id is forgotten by now. */
  async function overdue(change: Change) {
    const made = world(change);
    await made.inFlight.begin(QUEUED.slice(0, 1));
    const since = made.clock.now();
    await made.clock.pass(2 * DAY_MS);
    return { ...made, since };
  }

  test('it is sent once more though the destination has it', async () => {
    const asked: number[] = [];
    const { round, destination } = await overdue({
      verify: async (events) => {
        asked.push(...events.map(({ sequence }) => sequence));
        return { results: new Map([[1, DELIVERED]]) };
      },
    });
    const { results } = await round(QUEUED, signal);
    expect(asked).toStrictEqual([1]);
    expect(destination.calls).toStrictEqual([['a-2', 'b-3', 'c-4']]);
    expect(results.size).toBe(4);
  });

  test('it is overtaken by later events of its tenant while nobody answers', async () => {
    const { round, destination } = await overdue({
      verify: async () => ({ results: new Map(), blocked: RETRY }),
    });
    const { results, blocked } = await round(QUEUED, signal);
    expect(destination.calls).toStrictEqual([['b-3', 'c-4']]);
    expect([...results.keys()]).toStrictEqual([3, 4]);
    expect(blocked).toStrictEqual(RETRY);
  });

  test('it is not sent though the destination does not have it, or is believed to be there', async () => {
    const { round, destination, inFlight, clock } = await overdue({});
    destination.react = (events) => events.map(() => ({ kind: 'rejected', reason: 'no' }));
    const { results } = await round(QUEUED, signal);
    expect(destination.calls).toStrictEqual([['a-1', 'a-2', 'b-3', 'c-4']]);
    expect(results.get(1)).toStrictEqual({ kind: 'dead', reason: 'no', refused: true });
    destination.react = () => 'lost';
    await round(QUEUED, signal);
    expect(QUEUED.map((one) => inFlight.unansweredSince(one))).toStrictEqual(
      QUEUED.map(() => clock.now()),
    );
  });

  test('one that an operator forces says that nobody knows of it no more', async () => {
    const { round, destination, since } = await overdue({});
    destination.react = (events) => events.map(() => ({ kind: 'rejected', reason: 'no' }));
    const { results } = await round(
      QUEUED.map((one) => ({ ...one, forced: true, unansweredSince: since })),
      signal,
    );
    expect(results.get(1)).toMatchObject({ kind: 'dead', unansweredSince: since });
  });

  test('a refusal hides that an attempt before may have been taken', async () => {
    const { round, destination, clock } = world();
    destination.react = () => 'lost';
    const since = clock.now();
    await round(QUEUED.slice(0, 2), signal);
    await clock.pass(1_000);
    const refused: DeliveryOutcome = { kind: 'rejected', reason: 'no' };
    destination.react = (events) =>
      events.map(({ id }) => (id === 'a-2' ? { kind: 'delivered' } : refused));
    const { results } = await round(QUEUED, signal);
    expect([...results]).toStrictEqual([
      [1, { kind: 'dead', reason: 'no', refused: true, unansweredSince: since }],
      [2, DELIVERED],
      [3, { kind: 'dead', reason: 'no', refused: true }],
      [4, { kind: 'dead', reason: 'no', refused: true }],
    ]);
  });
});

test('an answer is taken for another event, or a tenant for unknown that is not', async () => {
  const { round, destination, said, inFlight, clock, records } = world();
  destination.react = () => [
    { kind: 'rejected', reason: 'no such code' },
    { kind: 'delivered' },
    { kind: 'provision', reason: 'no customer' },
    { kind: 'retry', reason: 'status 429', afterMs: 5_000 },
  ];
  const { results, blocked } = await round(QUEUED, signal);
  expect([...results]).toStrictEqual([
    [1, { kind: 'dead', reason: 'no such code', refused: true }],
    [2, DELIVERED],
  ]);
  expect(blocked).toStrictEqual({ kind: 'retry', reason: 'status 429', afterMs: 5_000 });
  expect(said).toStrictEqual(['admit a b c', 'accepted a', 'refused b: no customer']);
  // Only of the last one nobody knows what became of it.
  const since = QUEUED.map((one) => inFlight.unansweredSince(one));
  expect([since[0], since[2], since[3]]).toStrictEqual([undefined, undefined, clock.now()]);
  expect((await records.inFlight())?.map(([sequence]) => sequence)).toContain(4);
});

test('an event is too old a moment too early or too late', () => {
  const start = '2026-11-21T09:00:00Z';
  const at = (days: number, ms = 0) => Date.parse(start) + days * DAY_MS + ms;
  expect(ageProblem(start, undefined, at(1_000))).toBeUndefined();
  expect(ageProblem(start, 35 * DAY_MS, at(35, -1))).toBeUndefined();
  expect(ageProblem(start, 35 * DAY_MS, at(35))).toBe(
    'older than the 35 days that the destination accepts: window_start: "2026-11-21T09:00:00Z"',
  );
});
