import { describe, expect, test } from 'vitest';
import { TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { accept, page, type OpenEmpty } from './calls.ts';

/** An id is stored once; the first write wins (docs/reference/ledger-format.md#promises, P3). */
export function deduplicationPromises(openEmpty: OpenEmpty): void {
  describe('deduplication', () => {
    test('a window that is measured again after a restart is not billed twice', async () => {
      const ledger = await openEmpty();
      const events = testWindow(TEST_WINDOW_START, 4);
      await accept(ledger, { events });
      const again = await ledger.append({ events });
      expect(again).toEqual({
        kind: 'appended',
        outcomes: ['duplicate', 'duplicate', 'duplicate', 'duplicate'],
        head: 4,
      });
      expect(await page(ledger, 0, 10)).toHaveLength(4);
    });

    test('an id that occurs twice in one batch is stored once, the first one', async () => {
      const ledger = await openEmpty();
      const first = testEvent({ quantity: '1' });
      const outcomes = await accept(ledger, {
        events: [first, testEvent({ quantity: '1' }), testEvent({ quantity: '2' })],
      });
      expect(outcomes).toEqual(['accepted', 'duplicate', 'conflict']);
      expect(await page(ledger, 0, 10)).toEqual([{ sequence: 1, event: first }]);
    });

    test('a copy with quantity 0 sent first cannot be overwritten silently: the second is a conflict and counted', async () => {
      const ledger = await openEmpty();
      const first = testEvent({ quantity: '0' });
      await accept(ledger, { events: [first] });
      expect(await accept(ledger, { events: [testEvent({ quantity: '8' })] })).toEqual([
        'conflict',
      ]);
      expect(ledger.stats().conflicts).toBe(1);
      expect(await page(ledger, 0, 10)).toEqual([{ sequence: 1, event: first }]);
    });

    test("a client's own id used again for another tenant or window is a conflict, not a duplicate", async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: [testEvent({ id: 'own-1', tenant: 'a' })] });
      const outcomes = await accept(ledger, {
        events: [
          testEvent({ id: 'own-1', tenant: 'b' }),
          testEvent({ id: 'own-1', tenant: 'a', windowStart: TEST_WINDOW_START + 86_400_000 }),
          testEvent({ id: 'own-1', tenant: 'a' }),
        ],
      });
      expect(outcomes).toEqual(['conflict', 'conflict', 'duplicate']);
    });

    test('many appends at once each get their own answer and no number twice', async () => {
      const ledger = await openEmpty();
      const events = testWindow(TEST_WINDOW_START, 40);
      const outcomes = await Promise.all(
        [...events, ...events].map((event) => ledger.append({ events: [event] })),
      );
      const words = outcomes.map((outcome) =>
        outcome.kind === 'appended' ? outcome.outcomes[0] : outcome.message,
      );
      expect(words.filter((word) => word === 'accepted')).toHaveLength(40);
      expect(words.filter((word) => word === 'duplicate')).toHaveLength(40);
      const stored = await page(ledger, 0, 100);
      expect(stored.map(({ sequence }) => sequence)).toEqual(
        Array.from({ length: 40 }, (_, index) => index + 1),
      );
      expect(new Set(stored.map(({ event }) => event.id)).size).toBe(40);
    });
  });
}
