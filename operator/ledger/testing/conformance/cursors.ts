import { describe, expect, test } from 'vitest';
import { TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { accept, type OpenEmpty } from './calls.ts';

/** Only events wake readers. */
export function waitingPromises(openEmpty: OpenEmpty): void {
  describe('waiting', () => {
    test('a reader that has caught up wakes when an event arrives', async () => {
      const ledger = await openEmpty();
      const woken = ledger.changed(0, AbortSignal.timeout(10_000));
      await accept(ledger, { events: [testEvent()] });
      await woken;
      await ledger.changed(0, AbortSignal.timeout(10_000));
      expect(ledger.head()).toBe(1);
    });

    test('a reader that is stopped rejects with the reason', async () => {
      const ledger = await openEmpty();
      const stop = new AbortController();
      const waiting = ledger.changed(0, stop.signal);
      const reason = new Error('stopping');
      stop.abort(reason);
      await expect(waiting).rejects.toBe(reason);
      await expect(ledger.changed(0, stop.signal)).rejects.toBe(reason);
    });
  });
}

/**
 * Cursors move forward by themselves, and back only by an operator
 * (docs/reference/ledger-format.md#promises, P5).
 */
export function cursorPromises(openEmpty: OpenEmpty): void {
  describe('cursors', () => {
    test('a cursor moves forward and never back by itself', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      expect(await ledger.commitCursor('lago', 3)).toEqual({ kind: 'written' });
      expect(await ledger.commitCursor('lago', 2)).toEqual({ kind: 'written' });
      expect(ledger.cursors()).toEqual([
        { destination: 'lago', sequence: 3, windowEnd: testEvent().window_end },
      ]);
    });

    test('a cursor beyond the newest event is refused, so that later events are not skipped', async () => {
      const ledger = await openEmpty();
      for (const sequence of [1, -1, 0.5]) {
        const outcome = await ledger.commitCursor('lago', sequence);
        expect(outcome).toMatchObject({ kind: 'failed', cause: 'invalid' });
        expect(outcome).toHaveProperty('message', expect.stringContaining(`"${sequence}"`));
      }
      expect(await ledger.moveCursor('lago', 1)).toMatchObject({ cause: 'invalid' });
      expect(ledger.cursors()).toEqual([]);
    });

    test("an operator's rewind is not undone by the commit of what was in flight", async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      await ledger.commitCursor('lago', 4);
      await ledger.moveCursor('lago', 1);
      expect(await ledger.commitCursor('lago', 5, { from: 4 })).toMatchObject({
        kind: 'failed',
        cause: 'retryable',
      });
      expect(ledger.cursors()[0]?.sequence).toBe(1);
      expect(await ledger.commitCursor('lago', 5, { from: 1 })).toEqual({ kind: 'written' });
      expect(ledger.cursors()[0]?.sequence).toBe(5);
    });

    test('a cursor that somebody else has made meanwhile is not passed by a new one', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      const fresh = { from: 'none', records: [{ key: 'k', value: 'v' }] } as const;
      expect(await ledger.commitCursor('lago', 2, fresh)).toEqual({ kind: 'written' });
      for (const sequence of [2, 5]) {
        const again = { ...fresh, records: [{ key: 'k', value: 'again' }] };
        const outcome = await ledger.commitCursor('lago', sequence, again);
        expect(outcome).toMatchObject({ kind: 'failed', cause: 'retryable' });
      }
      expect(ledger.cursors()).toMatchObject([{ destination: 'lago', sequence: 2 }]);
      expect(await ledger.record('k')).toBe('v');
      await ledger.dropCursor('lago');
      expect(await ledger.commitCursor('lago', 5, fresh)).toEqual({ kind: 'written' });
    });

    test('records are parked by the write that moves the cursor, or neither happens', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      await ledger.writeRecords([{ key: 'in-flight', value: '1' }]);
      const records = [
        { key: 'in-flight', value: undefined },
        { key: 'parked', value: '3' },
      ];
      expect(await ledger.commitCursor('lago', 3, { records })).toEqual({ kind: 'written' });
      expect(await ledger.record('in-flight')).toBeUndefined();
      expect(await ledger.record('parked')).toBe('3');

      const late = [{ key: 'late', value: '5' }];
      const refused = await ledger.commitCursor('lago', 5, { from: 2, records: late });
      expect(refused).toMatchObject({ kind: 'failed', cause: 'retryable' });
      expect(await ledger.record('late')).toBeUndefined();
    });

    test('records are written though the cursor stands there already', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      await ledger.commitCursor('lago', 3);
      await ledger.commitCursor('lago', 3, { from: 3, records: [{ key: 'k', value: 'v' }] });
      expect(await ledger.record('k')).toBe('v');
    });

    test('a retired cursor keeps its place, is revived by a commit, and goes when dropped', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      await ledger.commitCursor('lago', 2);
      await ledger.retireCursor('lago', 1_000);
      await ledger.retireCursor('lago', 2_000);
      expect(ledger.cursors()[0]).toMatchObject({ sequence: 2, retiredAt: 1_000 });
      await ledger.commitCursor('lago', 2);
      expect(ledger.cursors()[0]).not.toMatchObject({ retiredAt: expect.anything() });
      expect(ledger.cursors()[0]?.sequence).toBe(2);
      await ledger.dropCursor('lago');
      expect(ledger.cursors()).toEqual([]);
    });

    test('cursors of several destinations do not touch each other', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 5) });
      await Promise.all([ledger.commitCursor('lago', 5), ledger.commitCursor('webhook', 1)]);
      const positions = ledger
        .cursors()
        .map(({ destination, sequence }) => [destination, sequence]);
      expect(new Map(positions as [string, number][])).toEqual(
        new Map([
          ['lago', 5],
          ['webhook', 1],
        ]),
      );
    });
  });
}
