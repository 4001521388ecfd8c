import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeEvent } from '../../../model/event.ts';
import { BatchTree, chainValue, FIRST_CHAIN } from '../../event-chain.ts';
import type { LedgerBatch } from '../../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { anyEvent } from './any-event.ts';
import { accept, page, type OpenEmpty } from './calls.ts';

/**
 * Events are read as they were appended, complete and in order
 * (docs/reference/ledger-format.md#promises, P4).
 */
export function readingPromises(openEmpty: OpenEmpty): void {
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

    test('whatever an event says comes back equal, and so does its text', async () => {
      const ledger = await openEmpty();
      let batch = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 20 }), async (drafts) => {
          batch += 1;
          const events = drafts.map((draft, index) => ({ ...draft, id: `any-${batch}-${index}` }));
          const before = ledger.head();
          expect(await accept(ledger, { events })).toEqual(events.map(() => 'accepted'));
          const stored = (await page(ledger, before, 100)).map(({ event }) => event);
          expect(stored).toStrictEqual(events);
          expect(stored.map(encodeEvent).join('\n').length).toBe(
            events.map(encodeEvent).join('\n').length,
          );
        }),
        { numRuns: 40 },
      );
      expect((await ledger.verify()).errors).toEqual([]);
    });

    test('batches continue the chain from any event on, and their texts give their roots', async () => {
      const ledger = await openEmpty();
      for (let window = 0; window < 6; window += 1) {
        await accept(ledger, {
          events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 4),
        });
      }
      const all = await Array.fromAsync(ledger.batches(1));
      let [chain, next] = [FIRST_CHAIN, 1];
      for (const batch of all) {
        const texts = await batch.texts();
        const tree = new BatchTree();
        for (const { sequence, tenant, text } of texts) tree.add(sequence, tenant, text);
        expect([batch.previous, batch.firstSequence]).toEqual([chain, next]);
        expect(tree.root()).toBe(batch.root);
        expect(chainValue(chain, next, tree.root())).toBe(batch.chain);
        [chain, next] = [batch.chain, batch.lastSequence + 1];
      }
      expect(next).toBe(25);
      const plain = (batch: LedgerBatch) => {
        const { firstSequence, lastSequence, previous, chain, root } = batch;
        return { firstSequence, lastSequence, previous, chain, root };
      };
      for (const sequence of [1, 2, 9, 24]) {
        const later = (await Array.fromAsync(ledger.batches(sequence))).map(plain);
        const expected = all.filter(({ lastSequence }) => lastSequence >= sequence);
        expect(later).toEqual(expected.map(plain));
      }
      expect(await Array.fromAsync(ledger.batches(25))).toEqual([]);
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
  });
}

/** The end of the last window is stored, and a healthy ledger verifies as healthy. */
export function upkeepPromises(openEmpty: OpenEmpty): void {
  describe('upkeep', () => {
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
