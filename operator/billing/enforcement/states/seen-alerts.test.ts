import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../../ledger/testing/memory-ledger.ts';
import { keyOfId, SeenAlerts } from './seen-alerts.ts';

const NOW = 1_800_000_000_000;

test('what is remembered is bounded: the oldest goes first, and the log says how many', async () => {
  const ledger = createMemoryLedger();
  const seen = new SeenAlerts(ledger, 2_000);
  await seen.load();
  const keys = Array.from({ length: 4_500 }, (_, index) => keyOfId('stripe', `evt_${index}`));
  for (const [index, key] of keys.entries()) {
    await ledger.writeRecords(seen.changes([{ key }], NOW + index));
    seen.add([{ key }], NOW + index);
  }
  expect(await seen.prune(NOW + keys.length, new Set())).toBe(2_500);
  const has = (memory: typeof seen, index: number) => memory.has(keyOfId('stripe', `evt_${index}`));
  const after = new SeenAlerts(ledger);
  await after.load();
  for (const memory of [seen, after]) {
    expect([has(memory, 2_499), has(memory, 2_500), has(memory, 4_499)]).toStrictEqual([
      false,
      true,
      true,
    ]);
  }
});

test('an id and a body of the same text are not taken for each other', async () => {
  const seen = new SeenAlerts(createMemoryLedger());
  await seen.load();
  seen.add([{ key: keyOfId('stripe', 'same') }], NOW);
  expect(seen.has(keyOfId('lago', 'same'))).toBe(false);
  expect(seen.has(keyOfId('stripe', 'same'))).toBe(true);
});

test('what only memory stops is kept while its secret is in use, and goes last when there is no room', async () => {
  const ledger = createMemoryLedger();
  const seen = new SeenAlerts(ledger, 4);
  await seen.load();
  const messages = ['old', 'old', 'new', 'new', undefined, undefined].map((signedBy, index) => ({
    key: keyOfId('lago', `${index}`),
    signedBy,
  }));
  await ledger.writeRecords(seen.changes(messages, NOW));
  seen.add(messages, NOW);
  const known = (memory: typeof seen) => messages.map(({ key }) => memory.has(key));
  // The secret `old` is out of use, and there is no room for all.
  expect(await seen.prune(NOW, new Set(['new']))).toBe(0);
  expect(known(seen)).toStrictEqual([false, false, true, true, true, true]);
  const after = new SeenAlerts(ledger, 4);
  await after.load();
  expect(await after.prune(NOW + 400 * 86_400_000, new Set(['new']))).toBe(0);
  expect(known(after)).toStrictEqual([false, false, true, true, false, false]);
  const small = new SeenAlerts(ledger, 1);
  await small.load();
  expect(await small.prune(NOW, new Set(['new']))).toBe(1);
});
