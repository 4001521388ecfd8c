import { expect, test } from 'vitest';
import { damage } from '../ledger/failures.ts';
import type { Ledger, StoredEvent } from '../ledger/ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { override } from '../model/override.ts';
import { withSummedReads } from './stream.ts';

/** A feeder's ledger, with what is summed of what it reads. */
function feeder(ledger: Ledger) {
  const summed: (readonly [after: number, sequences: readonly number[]])[] = [];
  const sum = (events: readonly StoredEvent[], after: number): void => {
    summed.push([after, events.map(({ sequence }) => sequence)]);
  };
  return { ledger: withSummedReads(ledger, sum), summed };
}

test('a page that a feeder reads is not summed, or as one from elsewhere', async () => {
  const ledger = createMemoryLedger();
  const events = ['a', 'b', 'c'].map((tenant) => testEvent({ tenant }));
  await ledger.append({ events, records: [] });
  const { ledger: fed, summed } = feeder(ledger);
  for (const after of [0, 2]) await fed.read(after, 2);
  expect(summed).toEqual([
    [0, [1, 2]],
    [2, [3]],
  ]);
});

test('what a feeder could not read is summed as if nothing were there', async () => {
  const failing = override<Ledger>(createMemoryLedger(), {
    read: async () => damage('events', 'event 1 is damaged').failure,
  });
  const { ledger, summed } = feeder(failing);
  expect((await ledger.read(0, 10)).kind).toBe('failed');
  expect(summed).toEqual([]);
});
