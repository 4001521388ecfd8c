import { expect, test } from 'vitest';
import type { BucketEvent, VerifyOutcome } from '../../destinations/destination.ts';
import { type Ledger, LedgerReadError } from '../../ledger/ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { createVerification, type VerificationOptions } from './verification.ts';

const { signal } = new AbortController();
const MINUTE = 60_000;
const at = (minute: number): number => TEST_WINDOW_START + minute * MINUTE;
const FAILURE = { kind: 'failed', cause: 'corrupt', message: 'damaged' } as const;

const EVENTS: readonly UsageEvent[] = [
  testEvent({ id: 'queried', tenant: 'a', windowStart: at(1) + 30_000 }),
  testEvent({ id: 'same', tenant: 'a', windowStart: at(1) }),
  testEvent({ id: 'dead', tenant: 'a', windowStart: at(1) + 59_000 }),
  testEvent({ id: 'parked', tenant: 'a', windowStart: at(1) }),
  testEvent({ id: 'unsent', tenant: 'a', windowStart: at(1) }),
  testEvent({ id: 'minute before', tenant: 'a', windowStart: at(1) - 1 }),
  testEvent({ id: 'minute after', tenant: 'a', windowStart: at(2) }),
  { ...testEvent({ id: 'metric', tenant: 'a', windowStart: at(1) }), metric: 'tenant_lb_hours' },
  testEvent({ id: 'tenant', tenant: 'b', windowStart: at(1) }),
  testEvent({ id: 'second', tenant: 'b', windowStart: at(5) }),
  testEvent({ id: 'settled', tenant: 'a', windowStart: at(1) }),
  testEvent({ id: 'pending', tenant: 'a', windowStart: at(1) }),
];
const numberOf = (id: string): number => EVENTS.findIndex((event) => event.id === id) + 1;
const queued = (...ids: readonly string[]) =>
  ids.flatMap((id) => {
    const event = EVENTS[numberOf(id) - 1];
    return event === undefined ? [] : [{ sequence: numberOf(id), event }];
  });

/** Asks after events; returns the report, and what the destination was asked with. */
async function query(
  ids: readonly string[],
  answer: VerifyOutcome,
  change: Partial<VerificationOptions> = {},
  replaced: Partial<Ledger> = {},
) {
  const memory = createMemoryLedger();
  await memory.append({ events: EVENTS });
  const ledger: Ledger = { ...memory, ...replaced };
  const records = createDeliveryRecords(ledger, 'fake');
  const parked = { at: 0, reason: 'no plan' };
  await ledger.writeRecords([
    ...queued('parked').map((one) => records.putParked({ ...one, ...parked })),
    records.putUnsent([[numberOf('unsent'), numberOf('unsent')]]),
  ]);
  const questions: [string[], readonly BucketEvent[] | undefined][] = [];
  const verify = createVerification({
    destination: {
      verify: async (events, _, sameBucket) => {
        questions.push([events.map(({ id }) => id), sameBucket]);
        return answer;
      },
    },
    ledger,
    records,
    deadLetters: { has: (sequence) => sequence === numberOf('dead') },
    changes: {
      sentAt: ({ event }) => Date.parse(event.window_start),
      reach: (time) => time,
    },
    pending: {
      hasPassed: (sequence) => sequence < numberOf('settled'),
      isDelivered: (sequence) => sequence === numberOf('settled'),
    },
    inFlight: { isForced: () => false },
    ...change,
  });
  const { results, blocked } = await verify(queued(...ids), signal);
  return { results: [...results], blocked, questions };
}
const reported = (bucket: readonly BucketEvent[] | undefined) =>
  bucket?.map(({ event, delivered }) => `${event.id} ${delivered ? 'delivered' : 'not'}`);
const NOTHING: VerifyOutcome = { kind: 'verified', known: new Set() };

test('a sum is compared with other events than those of its tenant, metric and minute', async () => {
  const { questions } = await query(['queried'], NOTHING);
  expect(questions).toHaveLength(1);
  expect(reported(questions[0]?.[1])).toStrictEqual([
    'queried delivered',
    'same delivered',
    'dead not',
    'parked not',
    'unsent not',
    'settled delivered',
    'pending not',
  ]);
  const both = await query(['second', 'queried'], NOTHING);
  const bucket = reported(both.questions[0]?.[1]) ?? [];
  expect(bucket).toContain('second delivered');
  expect(bucket).toContain('same delivered');
  expect(bucket.join()).not.toContain('tenant ');
  expect(bucket).toHaveLength(8);
});

test('an event is sent twice, or never, by what the destination says of it', async () => {
  const uncertain = new Map([
    ['same', 'sums differ'],
    ['queried', 'never reported for one that is known'],
  ]);
  const known = new Set(['queried', 'dead']);
  const { results } = await query(['queried', 'same', 'second'], {
    kind: 'verified',
    known,
    uncertain,
  });
  expect(results).toStrictEqual([
    [numberOf('queried'), { kind: 'delivered' }],
    [
      numberOf('same'),
      { kind: 'dead', reason: 'sums differ: replay it by force to send it anyway' },
    ],
  ]);
  const forced = { inFlight: { isForced: () => true } };
  expect((await query(['same'], { kind: 'verified', known, uncertain }, forced)).results).toEqual(
    [],
  );
  expect(await query([], NOTHING)).toStrictEqual({
    results: [],
    blocked: undefined,
    questions: [],
  });
});

test('an event is sent though the destination could not be queried this time, or never can be', async () => {
  const retry = { kind: 'retry', reason: 'status 503' } as const;
  expect(await query(['queried'], retry)).toMatchObject({ results: [], blocked: retry });
  const { results } = await query(['queried', 'same'], NOTHING, { destination: {} });
  const reason =
    'may have been delivered longer ago than the destination remembers, and it cannot be queried: replay it by force to send it anyway';
  expect(results).toStrictEqual([
    [numberOf('queried'), { kind: 'dead', reason }],
    [numberOf('same'), { kind: 'dead', reason }],
  ]);
  const forced = { destination: {}, inFlight: { isForced: () => true } };
  expect((await query(['queried'], NOTHING, forced)).results).toStrictEqual([]);
});

test.each([
  ['of the minute may be deleted', at(1) + 1, undefined],
  ['of the minute are all there', at(1), 7],
])('a sum is taken for complete though events %s', async (_, horizon, count) => {
  const memory = createMemoryLedger();
  const { questions } = await query(
    ['queried'],
    NOTHING,
    {},
    { stats: () => ({ ...memory.stats(), horizon }) },
  );
  expect(questions[0]?.[1]?.length).toBe(count);
});

test('a sum is taken for complete though stored events cannot be read', async () => {
  const failing = (error: Error): Partial<Ledger> => ({
    // eslint-disable-next-line require-yield
    scan: async function* () {
      throw error;
    },
  });
  const damaged = await query(['queried'], NOTHING, {}, failing(new LedgerReadError(FAILURE)));
  expect(damaged.questions).toStrictEqual([[['queried'], undefined]]);
  await expect(query(['queried'], NOTHING, {}, failing(new Error('a bug')))).rejects.toThrow(
    'a bug',
  );
});

test('what a change of plan has moved into a minute is left out of its sum', async () => {
  const moved = (event: UsageEvent): boolean => event.id === 'minute before';
  const { questions } = await query(['queried'], NOTHING, {
    changes: {
      sentAt: ({ event }) => (moved(event) ? at(1) : Date.parse(event.window_start)),
      reach: (time, tenant) => (tenant === 'a' ? time - MINUTE : time),
    },
  });
  expect(reported(questions[0]?.[1])).toContain('minute before delivered');
});
