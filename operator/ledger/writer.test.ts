import { describe, expect, test } from 'vitest';
import { testEvent, testWindow, TEST_WINDOW_START } from './testing/events.ts';
import { encodeEvents, type Request, type WriteRequestOutcome, Writer } from './writer.ts';

/** A store that writes nothing until it is released. */
function heldStore() {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  const batches: number[] = [];
  const write = async (requests: readonly Request[]): Promise<readonly WriteRequestOutcome[]> => {
    batches.push(requests.length);
    await held;
    return requests.map(() => ({ kind: 'appended', outcomes: [], head: 0 }));
  };
  return { write, letGo, batches };
}

const append = (events: number): Request => ({
  kind: 'append',
  events: encodeEvents(testWindow(TEST_WINDOW_START, events)),
  records: [],
});

describe('what waits to be written is bounded', () => {
  test('by events; windows are taken all the same', async () => {
    const store = heldStore();
    const writer = new Writer(store.write);
    const first = writer.submit(append(1), true);
    const waiting = [1, 2, 3, 4].map(() => writer.submit(append(5_000), true));
    expect(await writer.submit(append(1), true)).toMatchObject({
      cause: 'retryable',
      message: 'ledger: queue: full: "20000 events wait"',
    });
    const window = writer.submit(append(1), false);
    store.letGo();
    for (const outcome of await Promise.all([first, window, ...waiting])) {
      expect(outcome).toMatchObject({ kind: 'appended' });
    }
    expect(await writer.submit(append(1), true)).toMatchObject({ kind: 'appended' });
  });

  test('and by their size', async () => {
    const store = heldStore();
    const writer = new Writer(store.write);
    const event = { ...testEvent(), properties: { note: 'x'.repeat(15_000) } };
    const large: Request = {
      kind: 'append',
      events: encodeEvents(Array.from({ length: 1_000 }, () => event)),
      records: [],
    };
    const first = writer.submit(append(1), true);
    const second = writer.submit(large, true);
    expect(await writer.submit(large, true)).toMatchObject({ cause: 'retryable' });
    store.letGo();
    expect(await Promise.all([first, second])).toMatchObject([
      { kind: 'appended' },
      { kind: 'appended' },
    ]);
    expect(await writer.submit(large, true)).toMatchObject({ kind: 'appended' });
    expect(store.batches).toEqual([1, 1, 1]);
  });
});
