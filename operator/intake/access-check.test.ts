import { expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { IntakeWorld, START } from './testing/intake-world.ts';

test('a request that a closing moves into the ledger does not vanish before the budget has read it', async () => {
  const world = new IntakeWorld(createMemoryLedger());
  await world.begin();
  const metric = 'tenant_inference_tokens';
  const quantities = [{ metric, dimensions: { token_type: 'input' }, quantity: '12' }];
  const request = {
    key: 'k',
    source: 's',
    id: 'k',
    subject: 'acme',
    tenant: 'acme',
    at: START,
    quantities,
  };
  await world.intake.accept([request], 'gateway');
  const { ledger } = world.mortal;
  const before = ledger.head();
  world.clock.set(START + 2 * 3_600_000);
  expect(await world.intake.closeDue()).toBeUndefined();
  expect(ledger.head()).toBe(before + 1);
  // The budget's account is at the event before.
  expect(world.intake.openSums('acme', before)).toMatchObject([{ nanos: 12_000_000_000n }]);
  expect(world.intake.openSums('acme', ledger.head())).toStrictEqual([]);
});
