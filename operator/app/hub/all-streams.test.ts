import { expect, test } from 'vitest';
import { createHarness } from '../../delivery/testing/harness.ts';
import { destinationsOfAll } from './all-streams.ts';

/** A stream whose destination is suspended, or sends. */
async function stream(source: string, suspend: boolean) {
  const harness = createHarness();
  await harness.start({ suspend });
  const destinations = { list: () => harness.delivery.statuses() };
  return { unit: { name: { source }, destinations }, stop: () => harness.stop() };
}

test('a destination is said to be suspended while one of the streams still sends to it', async () => {
  const berlin = await stream('berlin', true);
  const paris = await stream('paris', false);
  expect(destinationsOfAll([berlin.unit, paris.unit])).toMatchObject([{ suspended: false }]);
  expect(destinationsOfAll([berlin.unit, berlin.unit])).toMatchObject([{ suspended: true }]);
  await berlin.stop();
  await paris.stop();
});
