import { describe, expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { accept, page, type OpenEmpty } from './calls.ts';

/** Events are kept as they were appended, once, in order. */
export function eventPromises(openEmpty: OpenEmpty): void {
  describe('events', () => {
    test('an empty ledger has no head, no page and no cursor', async () => {
      const ledger = await openEmpty();
      expect(ledger.head()).toBe(0);
      expect(ledger.lowWater()).toBe(0);
      expect(ledger.cursors()).toEqual([]);
      expect(await page(ledger, 0, 10)).toEqual([]);
      expect(ledger.stats().lastWindowEnd).toBeUndefined();
    });

    test('a window comes back in the order it was appended, every field and digit intact', async () => {
      const ledger = await openEmpty();
      const events = [
        testEvent({ tenant: 'a', quantity: '123456789012.123456789' }),
        testEvent({ tenant: 'b', quantity: '0.000000001' }),
        {
          ...testEvent({ tenant: 'ü"\\\u{1F4B6}' }),
          properties: { note: 'x":1,"quantity":9}', n: 0.5, b: true },
        },
      ];
      expect(await accept(ledger, { events })).toEqual(['accepted', 'accepted', 'accepted']);
      expect(await page(ledger, 0, 10)).toEqual(
        events.map((event, index) => ({ sequence: index + 1, event })),
      );
    });

    test('an event is found by its id, derived or foreign, and no other id finds one', async () => {
      const ledger = await openEmpty();
      const derived = testEvent({ tenant: 'a' });
      const foreign = { ...testEvent({ tenant: 'b' }), id: 'theirs-1', source: 'api' };
      await accept(ledger, { events: [derived] });
      await accept(ledger, { events: [foreign] });
      expect(await ledger.find(derived.id)).toEqual(derived);
      expect(await ledger.find('theirs-1')).toEqual(foreign);
      expect(await ledger.find('theirs-2')).toBeUndefined();
    });

    test('pages join without a hole or an overlap, and end with an empty one', async () => {
      const ledger = await openEmpty();
      for (let index = 0; index < 5; index++) {
        await accept(ledger, {
          events: testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5),
        });
      }
      const sequences: number[] = [];
      const starts = [0];
      for (const after of starts) {
        const stored = await page(ledger, after, 7);
        sequences.push(...stored.map((entry) => entry.sequence));
        const last = stored.at(-1);
        if (last !== undefined) starts.push(last.sequence);
      }
      expect(starts.at(-1)).toBe(25);
      expect(sequences).toEqual(Array.from({ length: 25 }, (_, index) => index + 1));
    });

    test('reading beyond the newest event is caught up, not an error', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: [testEvent()] });
      expect(await ledger.read(1, 10)).toEqual({ kind: 'page', events: [], lastSequence: 1 });
      expect(await ledger.read(99, 10)).toEqual({ kind: 'page', events: [], lastSequence: 99 });
    });

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

    test('a scan gives the events whose window starts in the half-open range', async () => {
      const ledger = await openEmpty();
      for (let index = 0; index < 4; index++) {
        await accept(ledger, {
          events: testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 3),
        });
      }
      const from = TEST_WINDOW_START + TEST_WINDOW_MS;
      const found: number[] = [];
      for await (const { sequence } of ledger.scan(from, from + 2 * TEST_WINDOW_MS)) {
        found.push(sequence);
      }
      expect(found).toEqual([4, 5, 6, 7, 8, 9]);
    });

    test('the end of the last closed window is remembered, and a late batch does not move it back', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: [], windowEnd: 120_000 });
      await accept(ledger, { events: [testEvent()], windowEnd: 60_000 });
      await accept(ledger, { events: [testEvent({ tenant: 'other' })] });
      expect(ledger.stats().lastWindowEnd).toBe(120_000);
    });

    test('verify finds a healthy ledger healthy', async () => {
      const ledger = await openEmpty();
      await accept(ledger, { events: testWindow(TEST_WINDOW_START, 10) });
      const report = await ledger.verify();
      expect(report.errors).toEqual([]);
      expect(report).toMatchObject({ ok: true, records: 10, firstSequence: 1, lastSequence: 10 });
      expect(ledger.stats().problems).toEqual([]);
    });
  });
}
