import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { readContent } from '../sample-ledger.ts';
import { accept } from './calls.ts';

/** Opens the same ledger at each call. The previous one is closed by then. */
export type Reopen = () => Promise<Ledger>;

/**
 * The next process finds everything that was stored (docs/reference/ledger-format.md#promises, P1).
 * `place` returns an empty ledger.
 */
export function restartPromises(place: () => Promise<Reopen>): void {
  describe('a restart', () => {
    test('finds events, records, cursors, the last window and the chain as they were', async () => {
      const open = await place();
      const first = await open();
      for (let window = 0; window < 6; window++) {
        const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
        await accept(first, {
          events: testWindow(windowStart, 4),
          records: [{ key: `k${window}`, value: 'v' }],
          windowEnd: windowStart + TEST_WINDOW_MS,
        });
      }
      await first.commitCursor('lago', 7);
      await first.retireCursor('lago', 5);
      await first.commitCursor('webhook', 24);
      await first.dropCursor('webhook');
      const before = await readContent(first);
      const { chain, ledgerId } = first.stats();
      await first.close();

      const second = await open();
      expect(await readContent(second)).toEqual(before);
      expect(second.stats()).toMatchObject({ ledgerId, chain, sequence: 24, problems: [] });
      expect((await second.verify()).errors).toEqual([]);
      await second.close();
    });

    test('does not let an event in again, derived or foreign, and goes on counting', async () => {
      const open = await place();
      const events = [
        ...testWindow(TEST_WINDOW_START, 10),
        testEvent({ id: 'own-1', tenant: 'x' }),
        testEvent({ id: 'own-2', tenant: 'x', windowStart: TEST_WINDOW_START - 86_400_000 }),
      ];
      const first = await open();
      await accept(first, { events });
      await first.close();

      const second = await open();
      const again = await accept(second, { events: [...events, testEvent({ tenant: 'new' })] });
      expect(again).toEqual([...events.map(() => 'duplicate'), 'accepted']);
      expect(second.head()).toBe(13);
      expect((await second.verify()).errors).toEqual([]);
      await second.close();
    });
  });
}
