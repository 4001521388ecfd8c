import { describe, expect, test } from 'vitest';
import type { Ledger, ReadOutcome } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { eventsOf } from '../testing/harness.ts';
import type { DeliveryResult } from '../delivery-result.ts';
import { Pending } from './pending.ts';

const DELIVERED: DeliveryResult = { kind: 'delivered' };
const PARKED: DeliveryResult = { kind: 'parked', reason: 'no plan' };
const FAILED = { kind: 'failed', cause: 'retryable', message: 'disk full' } as const;
const wants = (): boolean => true;
const ids = (queued: readonly { readonly event: UsageEvent }[]): string[] =>
  queued.map(({ event }) => event.id);

/** Five events of tenants a and b, of 100 bytes each, and the reader of `fake` before the first. */
async function begun(change: Partial<Ledger> = {}) {
  const memory = createMemoryLedger();
  await memory.append({ events: eventsOf(['a', 'b'], 3).slice(0, 5) });
  await memory.commitCursor('fake', 0);
  const ledger = { ...memory, ...change };
  const pending = new Pending(ledger, 'fake');
  return {
    ledger,
    memory,
    pending,
    read: (limits = {}) => pending.read({ events: 10, wants, ...limits }),
  };
}

const settleAll = (pending: Pending, results: Readonly<Record<number, DeliveryResult>>): void =>
  pending.settle(new Map(Object.entries(results).map(([key, value]) => [Number(key), value])));

describe('the cursor', () => {
  test('passes an event that has no result yet, or stays before one that has', async () => {
    const { ledger, pending, read } = await begun();
    await read();
    settleAll(pending, { 1: DELIVERED, 2: PARKED, 4: DELIVERED });
    const report = await pending.commit(() => []);
    expect(report).toMatchObject({ kind: 'committed', passed: [{ sequence: 1 }, { sequence: 2 }] });
    expect(pending.position()).toBe(2);
    expect(ledger.cursors()).toMatchObject([{ destination: 'fake', sequence: 2 }]);
    expect([1, 2, 3].map((sequence) => pending.hasPassed(sequence))).toStrictEqual([
      true,
      true,
      false,
    ]);
    expect(pending.first()?.sequence).toBe(3);
    expect(await pending.commit(() => [])).toMatchObject({ kind: 'committed', passed: [] });
    settleAll(pending, { 3: DELIVERED, 5: DELIVERED });
    expect(await pending.commit(() => [])).toMatchObject({
      passed: [3, 4, 5].map((sequence) => ({ sequence })),
    });
    expect(pending.isEmpty()).toBe(true);
  });

  test('moves without the records of what it passes, or counts as moved where it has not', async () => {
    const { memory, pending, read } = await begun({ commitCursor: async () => FAILED });
    await read();
    settleAll(pending, { 1: DELIVERED, 2: PARKED });
    expect(await pending.commit(() => [])).toStrictEqual(FAILED);
    expect(pending.position()).toBe(0);
    expect([1, 2, 3].map((sequence) => pending.isDelivered(sequence))).toStrictEqual([
      true,
      false,
      false,
    ]);
    expect(['a', 'b', 'c'].map((tenant) => pending.isParking(tenant))).toStrictEqual([
      false,
      true,
      false,
    ]);
    expect(ids(pending.open())).toStrictEqual(['a-1', 'b-1', 'a-2']);

    const working = new Pending(memory, 'fake');
    await working.read({ events: 2, wants });
    settleAll(working, { 1: DELIVERED, 2: PARKED });
    await working.commit((passed) => passed.map(({ event }) => ({ key: event.id, value: 'kept' })));
    expect(await memory.record('b-0')).toBe('kept');
  });

  test('overrules an operator who has moved it meanwhile', async () => {
    const { ledger, pending, read } = await begun();
    await read();
    settleAll(pending, { 1: DELIVERED });
    await ledger.moveCursor('fake', 4);
    expect(await pending.commit(() => [])).toMatchObject({ kind: 'failed', cause: 'retryable' });
    expect(ledger.cursors()).toMatchObject([{ sequence: 4 }]);
    pending.reset(4);
    expect(pending.isEmpty()).toBe(true);
    await read();
    expect(ids(pending.open())).toStrictEqual(['a-2']);
  });

  test('stays before numbers that the ledger has lost, and the reader is woken for ever', async () => {
    let page: ReadOutcome = { kind: 'page', events: [], lastSequence: 3 };
    const { ledger, pending, read } = await begun({ read: async () => page });
    expect(await read()).toBeUndefined();
    expect(pending.position()).toBe(3);
    expect(ledger.cursors()).toMatchObject([{ sequence: 3 }]);
    let commits = 0;
    const counting: Ledger = {
      ...ledger,
      commitCursor: async () => {
        commits += 1;
        return FAILED;
      },
    };
    const other = new Pending(counting, 'fake');
    other.reset(3);
    expect(await other.read({ events: 1, wants })).toBeUndefined();
    expect(commits).toBe(0);
    page = { kind: 'page', events: [], lastSequence: 4 };
    expect(await other.read({ events: 1, wants })).toStrictEqual({
      kind: 'retry',
      reason: 'disk full',
    });
    expect([commits, other.position()]).toStrictEqual([1, 3]);
  });
});

describe('what is read', () => {
  test('is read again while it is pending, so that events are twice in a batch', async () => {
    const { pending, read } = await begun();
    await read({ events: 2 });
    await read({ events: 3 });
    expect(ids(pending.open())).toStrictEqual(['a-0', 'b-0']);
  });

  test('is more than a call takes, or nothing where one event alone is too large', async () => {
    const sizeOf = ({ id }: UsageEvent): number => (id === 'b-0' ? 500 : 100);
    const { pending, read } = await begun();
    await read({ bytes: { most: 200, sizeOf } });
    expect(ids(pending.open())).toStrictEqual(['a-0']);
    settleAll(pending, { 1: DELIVERED });
    await pending.commit(() => []);
    await read({ bytes: { most: 200, sizeOf } });
    expect(ids(pending.open())).toStrictEqual(['b-0']);
    settleAll(pending, { 2: DELIVERED });
    await pending.commit(() => []);
    await read({ bytes: { most: 200, sizeOf } });
    expect(ids(pending.open())).toStrictEqual(['a-1', 'b-1']);
  });

  test('is unwanted, or only for explanations, and sent all the same', async () => {
    const { ledger, pending, read } = await begun();
    const note: UsageEvent = { ...testEvent({ id: 'cor1_late_0' }), source: 'correction' };
    await ledger.append({ events: [note] });
    const sizeOf = ({ tenant }: UsageEvent): number => (tenant === 'a' ? 1_000 : 100);
    await read({ bytes: { most: 200, sizeOf }, wants: ({ tenant }: UsageEvent) => tenant === 'b' });
    expect(ids(pending.open())).toStrictEqual(['b-0', 'b-1']);
    expect(pending.isDelivered(1)).toBe(false);
    settleAll(pending, { 2: DELIVERED, 4: DELIVERED });
    expect(pending.open()).toStrictEqual([]);
    expect(await pending.commit(() => [])).toMatchObject({
      passed: ['skipped', 'delivered', 'skipped', 'delivered', 'skipped', 'skipped'].map(
        (kind) => ({
          result: { kind },
        }),
      ),
    });
    expect(pending.position()).toBe(6);
  });

  test('a read that failed looks like the end of the ledger', async () => {
    const { read } = await begun({ read: async () => FAILED });
    expect(await read()).toStrictEqual({ kind: 'retry', reason: 'disk full' });
  });

  test('one call gets more than it takes of what earlier calls have left', async () => {
    const { pending, read } = await begun();
    await read({ events: 10, bytes: { most: 250, sizeOf: () => 100 } });
    expect(ids(pending.open())).toStrictEqual(['a-0', 'b-0']);
    settleAll(pending, { 1: PARKED });
    expect(ids(pending.open())).toStrictEqual(['b-0']);
  });
});
