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

test('a destination is shown as suspended while one of the streams still sends to it', async () => {
  const berlin = await stream('berlin', true);
  const paris = await stream('paris', false);
  expect(destinationsOfAll([berlin.unit, paris.unit])).toMatchObject([{ suspended: false }]);
  expect(destinationsOfAll([berlin.unit, berlin.unit])).toMatchObject([{ suspended: true }]);
  await berlin.stop();
  await paris.stop();
});

test('what one stream knows of a destination is not lost where another in trouble does not know it', async () => {
  const { unit, stop } = await stream('paris', false);
  const [status] = unit.destinations.list();
  if (status === undefined) throw new Error('the destination has no status');
  const known = { ...status, ready: true, lastSuccessAt: 1_000, eventsPerSecond: 5 };
  const troubled = { ...status, ready: false, lastSuccessAt: undefined, lastError: 'refused' };
  const units = [known, troubled].map((one) => ({ ...unit, destinations: { list: () => [one] } }));
  expect(destinationsOfAll(units)).toMatchObject([
    { ready: false, lastSuccessAt: 1_000, eventsPerSecond: 5, lastError: 'paris: refused' },
  ]);
  await stop();
});
