import { expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { correctionOf } from '../../model/correction.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, type Harness } from '../testing/harness.ts';

const ORIGINAL = testEvent({ id: 'e', tenant: 'a', quantity: '5' });
const NOTE = { reason: 'pushed twice', author: 'ann' };

/** Takes two back of the event at a place in the ledger. */
function correction(sequence = 1, number = 1, difference = -2_000_000_000n): UsageEvent {
  return correctionOf(
    { event: ORIGINAL, sequence },
    number,
    difference,
    '2026-11-21T10:00:00Z',
    NOTE,
  );
}
const { id: CORRECTION } = correction();

async function reasonsOf(harness: Harness): Promise<readonly string[]> {
  const page = await harness.delivery.deadLetters('fake', 0, 10);
  return (page?.deadLetters ?? []).map(({ event, reason }) => `${event.id}: ${reason}`);
}

test('a correction is sent once, after the event that it corrects, also out of one batch', async () => {
  const harness = createHarness();
  await harness.append(ORIGINAL, correction());
  await harness.start();
  await harness.drained();
  expect(harness.destination.calls).toStrictEqual([['e'], [CORRECTION]]);
  const day = { from: Date.UTC(2026, 10, 21), to: Date.UTC(2026, 10, 22) };
  const outcome = await harness.delivery.reconcile('fake', day, new AbortController().signal);
  expect(outcome).toMatchObject({ rows: [{ ledger: '3', delivered: '3', acknowledged: '3' }] });
  await harness.stop();
});

test('a correction of an event that was refused credits nobody, and goes with its replay', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.map(() => ({ kind: 'rejected', reason: 'no such code' }));
  await harness.append(ORIGINAL, correction());
  await harness.start();
  await harness.drained();
  expect(harness.destination.calls).toStrictEqual([['e']]);
  expect(await reasonsOf(harness)).toStrictEqual([
    'e: no such code',
    `${CORRECTION}: corrects event "e", which is a dead letter here: replay or discard that one first`,
  ]);
  harness.destination.react = () => 'accept';
  const replay = harness.delivery.replay('fake', undefined);
  await harness.clock.pass(5_000);
  expect(await replay).toMatchObject({ replayed: 2, stillRejected: 0, pending: 0 });
  expect(harness.destination.taken).toStrictEqual(['e', CORRECTION]);
  await harness.stop();
});

test('a correction does not overtake a refusal that is not on record yet', async () => {
  const harness = createHarness();
  let isDown = true;
  harness.destination.react = (events) =>
    events.map(({ tenant }) => {
      if (tenant === 'a') return { kind: 'rejected', reason: 'no such code' };
      return isDown ? { kind: 'retry', reason: 'status 503' } : { kind: 'delivered' };
    });
  await harness.append(testEvent({ id: 'other', tenant: 'b' }), ORIGINAL, correction(2));
  await harness.start();
  await harness.clock.pass(5_000);
  isDown = false;
  await harness.drained();
  expect(harness.destination.calls.flat()).not.toContain(CORRECTION);
  expect(await reasonsOf(harness)).toHaveLength(2);
  await harness.stop();
});

test('a correction of an event that was never sent is reported, not sent', async () => {
  const harness = createHarness();
  await harness.append(ORIGINAL);
  await harness.start({ startFrom: 'now' });
  await harness.drained();
  await harness.append(correction());
  await harness.drained();
  expect(harness.destination.calls).toStrictEqual([]);
  expect(await reasonsOf(harness)).toStrictEqual([
    `${CORRECTION}: corrects event "e", which was never sent here: discard this one`,
  ]);
  await harness.stop();
});

test('where nothing can be taken back a negative correction is reported, and a positive one sent', async () => {
  const { negativeQuantities: _, ...limits } = createFakeDestination().limits;
  const destination = { ...createFakeDestination(), limits };
  const calls: string[] = [];
  const harness = createHarness({
    destination: {
      ...destination,
      send: async (events) => {
        calls.push(...events.map(({ id }) => id));
        return events.map(() => ({ kind: 'delivered' }));
      },
    },
  });
  const more = correction(1, 2, 3_000_000_000n);
  await harness.append(ORIGINAL, correction(), more);
  await harness.start();
  await harness.drained();
  expect(calls).toStrictEqual(['e', more.id]);
  expect(await reasonsOf(harness)).toStrictEqual([
    expect.stringContaining(
      'this destination cannot take back by an event: enter it there by hand',
    ),
  ]);
  expect(nanosFromDecimal(more.quantity)).toBe(3_000_000_000n);
  await harness.stop();
});

test('the prediction of a correction is its outcome', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.map(({ tenant }) =>
      tenant === 'a' ? { kind: 'delivered' } : { kind: 'rejected', reason: 'no such code' },
    );
  const refused = testEvent({ id: 'refused', tenant: 'b' });
  const passedOver = { ...testEvent({ id: 'other', tenant: 'a' }), metric: 'tenant_gpu_hours' };
  const early = testEvent({ id: 'early', tenant: 'a' });
  const prediction = async (event: UsageEvent, sequence: number) =>
    (await harness.delivery.predictCorrection('fake', { event, sequence }))?.state;
  await harness.append(early);
  await harness.start({ startFrom: 'now', metrics: { exclude: [passedOver.metric] } });
  await harness.drained();
  await harness.append(ORIGINAL, refused, passedOver);
  expect(await prediction(ORIGINAL, 2)).toBe('waiting');
  await harness.drained();
  expect(await prediction(early, 1)).toBe('never-sent');
  expect(await prediction(ORIGINAL, 2)).toBe('delivered');
  expect(await prediction(refused, 3)).toBe('dead-letter');
  expect(await prediction(passedOver, 4)).toBe('not-wanted');
  expect(await harness.delivery.predictCorrection('gone', { event: early, sequence: 1 })).toBe(
    undefined,
  );
  await harness.stop();
});

test('a correction that does not say what it corrects is sent', async () => {
  const harness = createHarness();
  const nowhere = { properties: { corrects: 'e', corrects_sequence: 0.5 } };
  await harness.append(ORIGINAL, { ...correction(), ...nowhere });
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['e']);
  expect(await reasonsOf(harness)).toStrictEqual([
    `${CORRECTION}: corrects event "e", whose position in the ledger is unknown`,
  ]);
  await harness.stop();
});

test('a correction that names no place is waited for without an end', async () => {
  const { corrects_sequence: _place, ...properties } = correction().properties ?? {};
  const harness = createHarness();
  await harness.append(ORIGINAL, { ...correction(), properties });
  await harness.start();
  await harness.drained();
  expect(await reasonsOf(harness)).toStrictEqual([
    `${CORRECTION}: corrects event "e", whose position in the ledger is unknown`,
  ]);
  await harness.stop();
});
