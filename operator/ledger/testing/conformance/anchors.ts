import { describe, expect, test } from 'vitest';
import type { Ledger, LedgerAnchor } from '../../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { accept, page } from './calls.ts';
import type { Reopen } from './restart.ts';

const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);

function anchorOf(ledger: Ledger): LedgerAnchor {
  const { ledgerId, sequence, chain } = ledger.stats();
  return { ledgerId, sequence, chain };
}

/**
 * A ledger that is behind its anchor reports it and uses no number twice
 * (docs/reference/ledger-format.md#a-head-that-went-back). `place` returns an empty ledger.
 */
export function anchorPromises(place: () => Promise<Reopen>): void {
  describe('a ledger that is compared with what was noted elsewhere', () => {
    test('and that lacks the newest events says how many, and goes on behind their numbers', async () => {
      const open = await place();
      const ledger = await open();
      await accept(ledger, { events: windowAt(0) });
      await ledger.commitCursor('lago', 5);
      const noted = { ...anchorOf(ledger), sequence: 12, chain: 'a'.repeat(64) };
      expect(await ledger.compareWith(noted)).toEqual({ kind: 'written' });
      expect(ledger.stats().problems).toEqual([
        expect.stringMatching(/the newest events are missing: events 6 to 12 \(7\)/),
      ]);
      expect(ledger.head()).toBe(12);
      // A destination that has caught up passes the skipped numbers; only the next event wakes it.
      expect(await ledger.read(5, 10)).toEqual({ kind: 'page', events: [], lastSequence: 12 });
      expect(await ledger.commitCursor('lago', 12, { from: 5 })).toEqual({ kind: 'written' });
      await accept(ledger, { events: windowAt(1) });
      await accept(ledger, { events: windowAt(2) });
      expect((await page(ledger, 5, 5)).map(({ sequence }) => sequence)).toEqual([
        13, 14, 15, 16, 17,
      ]);
      expect(await accept(ledger, { events: windowAt(0) })).toEqual(
        windowAt(0).map(() => 'duplicate'),
      );
      const scanned = await Array.fromAsync(ledger.scan(0, Number.MAX_SAFE_INTEGER));
      expect(scanned.map(({ sequence }) => sequence)).toEqual([
        1, 2, 3, 4, 5, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
      ]);
      await ledger.close();

      const again = await open();
      expect(again.head()).toBe(22);
      expect(again.stats().problems).toEqual(['ledger: events 6 to 12: missing']);
      expect(await again.compareWith(anchorOf(again))).toEqual({ kind: 'written' });
      expect(await again.compareWith(noted)).toEqual({ kind: 'written' });
      expect(again.stats().problems).toHaveLength(1);
      await accept(again, { events: windowAt(3) });
      expect(again.head()).toBe(27);
      await again.close();
    });

    test('and that lost everything begins behind what was given', async () => {
      const open = await place();
      const ledger = await open();
      await ledger.compareWith({ ...anchorOf(ledger), sequence: 3, chain: 'b'.repeat(64) });
      expect(await accept(ledger, { events: [testEvent()] })).toEqual(['accepted']);
      expect(ledger.head()).toBe(4);
      expect((await page(ledger, 0, 10)).map(({ sequence }) => sequence)).toEqual([4]);
      await ledger.close();
      const again = await open();
      expect(again.head()).toBe(4);
      expect(again.stats().sequence).toBe(4);
      await again.close();
    });

    test('twice in a row loses no number', async () => {
      const open = await place();
      const ledger = await open();
      await accept(ledger, { events: windowAt(0) });
      const chain = 'c'.repeat(64);
      await ledger.compareWith({ ...anchorOf(ledger), sequence: 7, chain });
      await accept(ledger, { events: windowAt(1) });
      await ledger.compareWith({ ...anchorOf(ledger), sequence: 15, chain });
      await accept(ledger, { events: windowAt(2) });
      const pages = await Promise.all([0, 5, 12].map((after) => page(ledger, after, 5)));
      expect(pages.flat().map(({ sequence }) => sequence)).toEqual([
        1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20,
      ]);
      expect(ledger.stats().problems).toHaveLength(2);
      await ledger.close();
    });

    test('and that has other events under the same numbers says so', async () => {
      const open = await place();
      const ledger = await open();
      await accept(ledger, { events: windowAt(0) });
      await accept(ledger, { events: windowAt(1) });
      const noted = anchorOf(ledger);
      for (const wrong of [
        { ...noted, chain: 'd'.repeat(64) },
        // Within a batch, where no head can be.
        { ...noted, sequence: 7 },
      ]) {
        expect(await ledger.compareWith(wrong)).toEqual({ kind: 'written' });
      }
      expect(ledger.stats().problems).toEqual([
        expect.stringContaining('the chain at event 10 differs'),
        expect.stringContaining('the chain at event 7 differs'),
      ]);
      expect(ledger.head()).toBe(10);
      await ledger.close();
    });

    test('and that agrees, or is another one, has no problem', async () => {
      const open = await place();
      const ledger = await open();
      const empty = anchorOf(ledger);
      await accept(ledger, { events: windowAt(0) });
      const early = anchorOf(ledger);
      await accept(ledger, { events: windowAt(1) });
      const other = { ledgerId: 'another', sequence: 99, chain: 'e'.repeat(64) };
      const broken = [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY];
      const anchors = [empty, early, anchorOf(ledger), other];
      for (const anchor of [...anchors, ...broken.map((sequence) => ({ ...early, sequence }))]) {
        expect(await ledger.compareWith(anchor)).toEqual({ kind: 'written' });
      }
      expect(ledger.stats().problems).toEqual([]);
      expect(ledger.head()).toBe(10);
      expect((await ledger.verify()).errors).toEqual([]);
      await ledger.close();
    });
  });
}
