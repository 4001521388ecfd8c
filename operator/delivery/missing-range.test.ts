import { expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { createHarness, eventsOf } from './testing/harness.ts';

/**
 * A ledger whose events up to `last` are lost: their numbers are given, and nothing comes after
 * them yet.
 */
function withLostEvents(inner: Ledger, last: number): Ledger {
  return {
    ...inner,
    read: async (after, limit) =>
      after < last ? { kind: 'page', events: [], lastSequence: last } : inner.read(after, limit),
  };
}

test('numbers that the ledger has lost do not keep the process busy for ever, and what comes after them arrives', async () => {
  const inner = createMemoryLedger();
  await inner.append({ events: eventsOf(['a', 'b', 'c']) });
  const harness = createHarness({ ledger: withLostEvents(inner, 3) });
  await harness.start();
  await harness.drained();
  expect(inner.cursors()).toMatchObject([{ destination: 'fake', sequence: 3 }]);
  await harness.append(...eventsOf(['late']));
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['late-0']);
  await harness.stop();
});
