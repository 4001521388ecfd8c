import { expect, test } from 'vitest';
import type { SharedFeeders } from '../../delivery/shared-feeders.ts';
import { damage } from '../../ledger/failures.ts';
import type { Ledger, StoredEvent } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { override } from '../../model/override.ts';
import { heardFeeders } from './heard-feeders.ts';

const LEASE = { name: 'feeder/invoicing', epoch: 1 };

/** A feeder's ledger, with what was heard of what it read. */
async function feeder(ledger: Ledger) {
  const heard: (readonly [after: number, sequences: readonly number[]])[] = [];
  const replica: SharedFeeders = {
    leases: {
      want: () => undefined,
      held: () => new Map(),
      addressOf: () => undefined,
      others: () => [],
      subscribe: () => () => undefined,
      run: async () => undefined,
    },
    open: ledger,
    heldBy: async () => ({ kind: 'held', ledger }),
  };
  const hear = (events: readonly StoredEvent[], after: number): void => {
    heard.push([after, events.map(({ sequence }) => sequence)]);
  };
  const given = await heardFeeders(replica, hear).heldBy(LEASE);
  if (given.kind === 'failed') throw new Error(given.message);
  return { ledger: given.ledger, heard };
}

test('a page that a feeder reads is not heard, or as one from elsewhere', async () => {
  const ledger = createMemoryLedger();
  const events = ['a', 'b', 'c'].map((tenant) => testEvent({ tenant }));
  await ledger.append({ events, records: [] });
  const { ledger: held, heard } = await feeder(ledger);
  for (const after of [0, 2]) await held.read(after, 2);
  expect(heard).toEqual([
    [0, [1, 2]],
    [2, [3]],
  ]);
});

test('what a feeder could not read is heard as if nothing were there', async () => {
  const failing = override<Ledger>(createMemoryLedger(), {
    read: async () => damage('events', 'event 1 is damaged').failure,
  });
  const { ledger, heard } = await feeder(failing);
  expect((await ledger.read(0, 10)).kind).toBe('failed');
  expect(heard).toEqual([]);
});
