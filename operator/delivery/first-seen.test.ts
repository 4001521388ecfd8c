import { describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { ExistingDestination } from './destination-status.ts';
import { createFakeDestination } from './testing/fake-destination.ts';
import { createHarness, eventsOf, testSettings } from './testing/harness.ts';
import { createVirtualClock, type VirtualClock } from './testing/virtual-clock.ts';

const DAY_MS = 86_400_000;
const PROBLEM = { reason: 'SecretNotFound', message: 'no such Secret: "billing-lago"' };
const USABLE: ExistingDestination = {
  name: 'lago',
  type: 'noop',
  suspend: false,
  startFrom: 'now',
};
const UNUSABLE: ExistingDestination = { ...USABLE, problem: PROBLEM };
const EVENTS = eventsOf(['a'], 8);

/**
 * A running engine whose ledger has two events, and the custom resources that a test says there
 * are.
 */
async function world(
  existing: ExistingDestination[],
  ledger: Ledger = createMemoryLedger(),
  clock: VirtualClock = createVirtualClock(),
) {
  const destination = createFakeDestination({ name: 'lago' });
  const destinations = new Map([['lago', destination]]);
  const harness = createHarness({ ledger, clock, destinations, existing: () => existing });
  await harness.append(...EVENTS.slice(0, 2));
  await harness.start();
  const cursor = () => ledger.cursors().find((one) => one.destination === 'lago');
  return {
    ...harness,
    destination,
    cursor,
    become: (...next: ExistingDestination[]) => existing.splice(0, existing.length, ...next),
    record: (from: number, to: number) => harness.append(...EVENTS.slice(from, to)),
  };
}

describe('a destination that cannot be used when it is declared', () => {
  test.each([
    ['now', ['a-4', 'a-5', 'a-6', 'a-7']],
    ['earliest', EVENTS.map(({ id }) => id)],
  ] as const)(
    'is never sent what is recorded before its Secret is there: startFrom %s',
    async (startFrom, sent) => {
      const { become, record, ...engine } = await world([]);
      await record(2, 4);
      become({ ...UNUSABLE, startFrom });
      expect(await engine.delivery.reserve()).toStrictEqual({ kind: 'written' });
      await record(4, 6);
      await engine.delivery.reserve();
      become(USABLE);
      await engine.delivery.apply([testSettings({ name: 'lago', startFrom: 'now' })]);
      await record(6, 8);
      await engine.clock.until(() => engine.cursor()?.sequence === 8);
      expect(engine.destination.taken).toStrictEqual(sent);
      await engine.stop();
    },
  );

  test('begins again with every start of the process', async () => {
    const ledger = createMemoryLedger();
    const first = await world([UNUSABLE], ledger);
    await first.stop();
    await first.record(2, 4);
    const second = await world([UNUSABLE], ledger);
    expect(second.cursor()).toMatchObject({ sequence: 2 });
    expect(second.delivery.status('lago')).toMatchObject({
      lagEvents: 2,
      backlog: { bytes: 500, windowEnd: EVENTS[1]?.window_end },
    });
    await second.stop();
  });

  test('fills the volume, and its status does not say when', async () => {
    const memory = createMemoryLedger();
    const clock = createVirtualClock();
    const oldestAt = clock.now() - DAY_MS;
    const ledger: Ledger = {
      ...memory,
      stats: () => ({ ...memory.stats(), oldestAt, roomBytes: 10 * 8 * 250 }),
    };
    const { record, ...engine } = await world(
      [{ ...UNUSABLE, startFrom: 'earliest' }],
      ledger,
      clock,
    );
    await record(2, 8);
    // Eight events in a day: the volume holds nine and a half days of them, and one has waited for
    // a day.
    expect(engine.delivery.status('lago')).toMatchObject({
      lagEvents: 8,
      lagSeconds: 86_400,
      backlog: { bytes: 2_000, fullInMs: 8.5 * DAY_MS },
    });
    await engine.stop();
  });

  test('holds the ledger for ever once it is deleted', async () => {
    const { become, record, ...engine } = await world([UNUSABLE]);
    expect(engine.cursor()).not.toHaveProperty('retiredAt');
    const { startFrom: _, ...deleting } = UNUSABLE;
    become(deleting);
    await engine.ledger.retireCursor('lago', 1);
    await engine.delivery.reserve();
    expect(engine.cursor()).toMatchObject({ retiredAt: 1 });
    become();
    await record(2, 4);
    await engine.delivery.apply([]);
    expect(engine.cursor()).toMatchObject({ sequence: 2, retiredAt: 1 });
    await engine.stop();
  });

  test('loses its place by being deleted and applied again', async () => {
    const { become, record, ...engine } = await world([UNUSABLE]);
    await engine.ledger.retireCursor('lago', 1);
    await record(2, 4);
    await engine.delivery.reserve();
    expect(engine.cursor()).toMatchObject({ sequence: 2 });
    expect(engine.cursor()).not.toHaveProperty('retiredAt');
    await engine.ledger.retireCursor('lago', 1);
    become({ ...UNUSABLE, type: 'webhook' });
    await engine.delivery.reserve();
    expect(engine.cursor()).toMatchObject({ sequence: 4 });
    expect(engine.cursor()).not.toHaveProperty('retiredAt');
    await engine.stop();
  });

  test('is passed over because the ledger cannot be written at that moment', async () => {
    const memory = createMemoryLedger();
    let isFull = true;
    const ledger: Ledger = {
      ...memory,
      commitCursor: async (...call) =>
        isFull && call[0] === 'lago'
          ? { kind: 'failed', cause: 'full', message: 'ledger: no room' }
          : memory.commitCursor(...call),
    };
    const engine = await world([UNUSABLE], ledger);
    expect(await engine.delivery.reserve()).toMatchObject({ kind: 'failed', cause: 'full' });
    expect(engine.lines).toContain('warn [lago] ledger: no room');
    isFull = false;
    expect(await engine.delivery.reserve()).toStrictEqual({ kind: 'written' });
    expect(engine.cursor()).toMatchObject({ sequence: 2 });
    await engine.stop();
  });
});

test('a cursor that another process has just made is taken for a new one, and what is behind it skipped', async () => {
  const memory = createMemoryLedger();
  // This process has not read yet what the other one wrote.
  const ledger: Ledger = { ...memory, cursors: () => [] };
  await memory.append({ events: EVENTS.slice(0, 2) });
  await memory.commitCursor('lago', 0);
  const harness = createHarness({ ledger, existing: () => [UNUSABLE] });
  await harness.start();
  expect(await harness.delivery.reserve()).toMatchObject({ kind: 'failed', cause: 'retryable' });
  expect(memory.cursors()).toMatchObject([{ destination: 'lago', sequence: 0 }, {}]);
  await harness.stop();
});
