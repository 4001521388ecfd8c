import { expect, test } from 'vitest';
import { createVirtualClock } from '../../delivery/testing/virtual-clock.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { testSettings } from '../../http/testing/test-server.ts';
import { createOfflineEnforcement } from './testing/offline-enforcement.ts';

test('an ordinary start requests a discovery pass before the first lists are in, which logs an error', async () => {
  const clock = createVirtualClock();
  let known = false;
  const passes: boolean[] = [];
  const settings = testSettings();
  const enforcement = await createOfflineEnforcement({
    ledger: createMemoryLedger(),
    settings: () => settings,
    tenants: () => [],
    clock,
    known: () => known,
    runPass: async () => {
      passes.push(known);
      return { kind: 'found', clusters: [] };
    },
  });
  const stop = new AbortController();
  const running = enforcement.run(stop.signal);
  await clock.pass(5000);
  expect(passes).toStrictEqual([]);
  known = true;
  await clock.pass(1000);
  expect(passes).toStrictEqual([true]);
  stop.abort();
  await running;
});
