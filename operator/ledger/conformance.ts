import { afterEach, describe, expect, test } from 'vitest';
import type { AppendBatch, EventOutcome, Ledger, StoredEvent } from './ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from './testing/events.ts';

/**
 * What every implementation of {@link Ledger} must do, as a vitest suite. `open` gives a ledger that
 * is empty; the suite closes it.
 */
export function ledgerConformance(name: string, open: () => Promise<Ledger>): void {
  describe(`${name} keeps the promises of a ledger`, () => {
    const opened: Ledger[] = [];
    const openEmpty = async (): Promise<Ledger> => {
      const ledger = await open();
      opened.push(ledger);
      return ledger;
    };
    afterEach(async () => {
      for (const ledger of opened.splice(0)) await ledger.close();
    });

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

    describe('waiting', () => {
      test('a reader that has caught up wakes when an event arrives', async () => {
        const ledger = await openEmpty();
        const woken = ledger.changed(0, AbortSignal.timeout(10_000));
        await accept(ledger, { events: [testEvent()] });
        await woken;
        await ledger.changed(0, AbortSignal.timeout(10_000));
        expect(ledger.head()).toBe(1);
      });

      test('a reader that is told to stop rejects with the reason', async () => {
        const ledger = await openEmpty();
        const stop = new AbortController();
        const waiting = ledger.changed(0, stop.signal);
        const reason = new Error('stopping');
        stop.abort(reason);
        await expect(waiting).rejects.toBe(reason);
        await expect(ledger.changed(0, stop.signal)).rejects.toBe(reason);
      });
    });

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
        expect(ledger.cursors()[0]).not.toHaveProperty('retiredAt');
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

    describe('records', () => {
      test('records change with the events of their batch and are listed by prefix in key order', async () => {
        const ledger = await openEmpty();
        await accept(ledger, {
          events: [testEvent()],
          records: [
            { key: 'journal/b', value: '2' },
            { key: 'journal/a', value: '1' },
            { key: 'journal', value: 'not below' },
            { key: 'journal0', value: 'after' },
          ],
        });
        expect(await list(ledger, 'journal/')).toEqual([
          ['journal/a', '1'],
          ['journal/b', '2'],
        ]);
        expect(await list(ledger, 'none/')).toEqual([]);
        expect(await list(ledger, '')).toHaveLength(4);
        expect(await ledger.record('journal/a')).toBe('1');
        expect(await ledger.record('journal/c')).toBeUndefined();
      });

      test('keys are ordered by their bytes and prefixes end at a character, not in the middle of one', async () => {
        const ledger = await openEmpty();
        const keys = ['t/\u{1F4B6}', 't/\uFF5E', 't/é', 't/z', 'u/ÿ', 'u/\u{10FFFF}'];
        await ledger.writeRecords(keys.map((key) => ({ key, value: key })));
        expect((await list(ledger, 't/')).map(([key]) => key)).toEqual([
          't/z',
          't/é',
          't/\uFF5E',
          't/\u{1F4B6}',
        ]);
        expect((await list(ledger, 'u/')).map(([key]) => key)).toEqual(['u/ÿ', 'u/\u{10FFFF}']);
      });

      test('a record is replaced, deleted and empty as told', async () => {
        const ledger = await openEmpty();
        await ledger.writeRecords([
          { key: 'a', value: 'old' },
          { key: 'b', value: 'gone' },
          { key: 'c', value: '' },
        ]);
        await ledger.writeRecords([
          { key: 'a', value: 'older' },
          { key: 'a', value: 'new' },
          { key: 'b', value: undefined },
          { key: 'never', value: undefined },
        ]);
        expect(await list(ledger, '')).toEqual([
          ['a', 'new'],
          ['c', ''],
        ]);
      });

      test('records of a batch whose events are all duplicates still change', async () => {
        const ledger = await openEmpty();
        await accept(ledger, { events: [testEvent()] });
        await accept(ledger, { events: [testEvent()], records: [{ key: 'k', value: 'v' }] });
        expect(await ledger.record('k')).toBe('v');
        expect(ledger.head()).toBe(1);
      });
    });
  });
}

async function accept(ledger: Ledger, batch: AppendBatch): Promise<readonly EventOutcome[]> {
  const outcome = await ledger.append(batch);
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.outcomes;
}

async function page(ledger: Ledger, after: number, limit: number): Promise<readonly StoredEvent[]> {
  const outcome = await ledger.read(after, limit);
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.events;
}

async function list(ledger: Ledger, prefix: string): Promise<(readonly [string, string])[]> {
  const entries: (readonly [string, string])[] = [];
  for await (const entry of ledger.records(prefix)) entries.push(entry);
  return entries;
}
