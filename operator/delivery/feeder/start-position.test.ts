import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { eventsOf, tenantNamed } from '../testing/harness.ts';
import { findStartPosition, lossText, reservePosition } from './start-position.ts';

const NOW = Date.UTC(2026, 10, 21);
const LAGO = { name: 'fake', type: 'lago', startFrom: 'earliest' } as const;
const FAILED = { kind: 'failed', cause: 'retryable', message: 'disk full' } as const;

/** Six events, of which the ledger has deleted the first two. */
async function world(change: Partial<Ledger> = {}) {
  const memory = createMemoryLedger();
  await memory.append({ events: eventsOf(['a'], 6) });
  const ledger: Ledger = { ...memory, lowWater: () => 2, ...change };
  const records = createDeliveryRecords(ledger, 'fake');
  return {
    ledger,
    records,
    find: (settings = {}) => findStartPosition(ledger, records, { ...LAGO, ...settings }, NOW),
    reserve: (settings = {}) => reservePosition(ledger, { ...LAGO, ...settings }, NOW),
  };
}

async function listed<T>(listing: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of listing) found.push(one);
  return found;
}

describe('a new destination', () => {
  test('begins elsewhere than at the oldest event, or takes what was deleted for not sent', async () => {
    const { find, ledger, records } = await world();
    expect(await find()).toStrictEqual({ kind: 'position', sequence: 2, state: { type: 'lago' } });
    expect(ledger.cursors()).toMatchObject([{ destination: 'fake', sequence: 2 }]);
    expect(await records.unsent()).toStrictEqual([]);
    expect(await records.state()).toStrictEqual({ type: 'lago' });
  });

  test('with startFrom now is credited for what it was never sent', async () => {
    const { find, records } = await world();
    expect(await find({ startFrom: 'now' })).toMatchObject({ sequence: 6 });
    expect(await records.unsent()).toStrictEqual([[3, 6]]);
  });

  test('begins though its place could not be written', async () => {
    const { find } = await world({ commitCursor: async () => FAILED });
    expect(await find()).toStrictEqual(FAILED);
  });
});

describe('a cursor', () => {
  test('of another destination is taken for its own', async () => {
    const { ledger, find } = await world();
    await ledger.commitCursor('other', 5);
    expect(await find()).toMatchObject({ sequence: 2 });
    expect(ledger.cursors()).toMatchObject([{ sequence: 5 }, { destination: 'fake', sequence: 2 }]);
  });

  test('is left where it is, and what its operator has rewound is forgotten', async () => {
    const { ledger, records, find } = await world();
    const state = { type: 'lago', resentUntil: 5 };
    await ledger.commitCursor('fake', 4, { records: [records.putState(state)] });
    expect(await find({ startFrom: 'now' })).toEqual({
      kind: 'position',
      sequence: 4,
      state,
    });
    expect(await records.state()).toStrictEqual(state);
  });

  test('of an earlier version, which noted no type, is begun again', async () => {
    const { ledger, records, find } = await world();
    await ledger.commitCursor('fake', 4);
    expect(await find()).toEqual({ kind: 'position', sequence: 4, state: { type: 'lago' } });
    expect(await records.state()).toStrictEqual({ type: 'lago' });
  });

  test('that was retired stays so, or its loss is not explained', async () => {
    const { ledger, find } = await world();
    await ledger.commitCursor('fake', 4);
    await ledger.retireCursor('fake', NOW);
    expect(await find()).toMatchObject({ sequence: 4, retiredAt: NOW });
    expect(ledger.cursors()[0]).not.toHaveProperty('retiredAt');
    expect(await find()).not.toMatchObject({ retiredAt: expect.anything() });
  });

  test('that cannot be written is read from all the same', async () => {
    const { ledger, find } = await world();
    await ledger.commitCursor('fake', 4);
    const failing: Ledger = { ...ledger, commitCursor: async () => FAILED };
    const records = createDeliveryRecords(failing, 'fake');
    expect(await findStartPosition(failing, records, LAGO, NOW)).toStrictEqual(FAILED);
    expect(await find()).toMatchObject({ sequence: 4 });
  });

  test.each([
    [3, 'blocked'],
    [4, 'position'],
    [5, 'position'],
  ])('at %i of an hour that was sent as sums up to 4 is a %s', async (sequence, kind) => {
    const { ledger, find } = await world();
    const sums = { key: 'delivery/fake/aggregated/0000000000000000', value: '{"from":0,"to":4}' };
    await ledger.commitCursor('fake', sequence, { records: [sums] });
    expect(await find()).toMatchObject({ kind });
  });

  test('in sums whose events are deleted is held for nothing', async () => {
    const { ledger, find } = await world();
    const sums = { key: 'delivery/fake/aggregated/0000000000000000', value: '{"from":0,"to":2}' };
    await ledger.commitCursor('fake', 1, { records: [sums] });
    expect(await find()).toMatchObject({ kind: 'position', sequence: 1 });
  });
});

describe('a destination of another type under a name', () => {
  /** What a webhook of that name has left behind: every kind of record. */
  async function left(change: Partial<Ledger> = {}) {
    const made = await world(change);
    const { ledger, records } = made;
    const event = testEvent({ id: 'parked', tenant: 'a' });
    const stored = { at: 0, reason: 'no plan', event };
    await ledger.writeRecords([
      records.putState({ type: 'webhook', resentUntil: 6 }),
      records.putInFlight([[3, 0]]),
      records.putParked({ ...stored, sequence: 3 }),
      records.putTenant(tenantNamed('a')),
      records.putReplay({ ...stored, sequence: 4 }),
      records.putAcknowledged(0, Buffer.from([1])),
      records.putChanges({ tenant: 'a', made: [] }),
      records.putOffboard({ tenant: tenantNamed('b'), sequence: 5, requestedAt: 0 }),
      { key: 'delivery/fake/aggregated/0000000000000000', value: '{"from":0,"to":5}' },
    ]);
    return made;
  }

  test('goes on with the work of the one before, or loses what that had set aside', async () => {
    const { ledger, records, find } = await left();
    await ledger.commitCursor('fake', 5);
    expect(await find()).toStrictEqual({ kind: 'position', sequence: 2, state: { type: 'lago' } });
    expect(ledger.cursors()).toMatchObject([{ destination: 'fake', sequence: 2 }]);
    expect(await listed(records.dead())).toMatchObject([
      { sequence: 3, at: NOW, reason: 'was waiting for the webhook destination of this name' },
      { sequence: 4, at: NOW, reason: 'was waiting for the webhook destination of this name' },
    ]);
    const keys = (await listed(ledger.records('delivery/'))).map(([key]) => key);
    expect(keys).toStrictEqual([
      'delivery/fake/dead/0000000000000003',
      'delivery/fake/dead/0000000000000004',
      'delivery/fake/state',
    ]);
  });

  test('begins though what is left could not be cleared away', async () => {
    expect(await (await left()).find()).toMatchObject({ kind: 'position' });
    const { ledger } = await left();
    for (const change of [
      { writeRecords: async () => FAILED },
      { dropCursor: async () => FAILED },
    ] satisfies Partial<Ledger>[]) {
      const failing = { ...ledger, ...change };
      const records = createDeliveryRecords(failing, 'fake');
      expect(await findStartPosition(failing, records, LAGO, NOW)).toStrictEqual(FAILED);
    }
  });
});

describe('a place that is kept for a destination', () => {
  test('moves with every start, or is not kept at all', async () => {
    const { ledger, records, reserve } = await world();
    expect(await reserve({ startFrom: 'now' })).toStrictEqual({ kind: 'written' });
    expect(ledger.cursors()).toMatchObject([{ destination: 'fake', sequence: 6 }]);
    await ledger.append({ events: [testEvent({ id: 'next' })] });
    expect(await reserve({ startFrom: 'now', type: 'webhook' })).toStrictEqual({ kind: 'written' });
    expect(ledger.cursors()).toMatchObject([{ destination: 'fake', sequence: 6 }]);
    expect(await records.state()).toStrictEqual({ type: 'lago' });
  });

  test.each([
    ['of this type', 'lago', 4],
    ['of no type', undefined, 4],
    ['of another type', 'webhook', 6],
  ])('goes on with a retired cursor %s', async (_, type, sequence) => {
    const { ledger, records, reserve } = await world();
    const state = type === undefined ? [] : [records.putState({ type })];
    await ledger.commitCursor('other', 1);
    await ledger.commitCursor('fake', 4, { records: state });
    await ledger.retireCursor('fake', NOW);
    expect(await reserve({ startFrom: 'now' })).toStrictEqual({ kind: 'written' });
    const own = ledger.cursors().find(({ destination }) => destination === 'fake');
    expect(own).toMatchObject({ sequence });
    expect(own).not.toHaveProperty('retiredAt');
  });

  test('is promised though it could not be written', async () => {
    const { ledger } = await world();
    const failing: Ledger = { ...ledger, commitCursor: async () => FAILED };
    expect(await reservePosition(failing, LAGO, NOW)).toStrictEqual(FAILED);
    await ledger.commitCursor('fake', 4);
    await ledger.retireCursor('fake', NOW);
    expect(await reservePosition(failing, LAGO, NOW)).toStrictEqual(FAILED);
  });
});

test('events that are gone are not reported, or are reported for a cursor that has them all', () => {
  const at = (sequence: number, retired = {}) =>
    lossText({ kind: 'position', sequence, state: { type: 'lago' }, ...retired }, 5);
  expect([at(5), at(6)]).toStrictEqual([undefined, undefined]);
  expect(at(4)).toBe('1 events after the cursor are no longer in the ledger: cursor: "4"');
  expect(at(2, { retiredAt: NOW })).toBe(
    '3 events after the cursor are no longer in the ledger, because it was retired at 2026-11-21T00:00:00.000Z and RETENTION has passed since: cursor: "2": it goes on with event 6',
  );
});
