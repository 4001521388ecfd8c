import { describe, expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../events.ts';
import { accept, list, type OpenEmpty } from './calls.ts';

/** Records change in one unit with events and cursors. */
export function recordPromises(openEmpty: OpenEmpty): void {
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

    test('evidence is listed by its hour and tenant, over all segments that have events of the hour', async () => {
      const ledger = await openEmpty();
      const hourOf = (window: number): string =>
        new Date(TEST_WINDOW_START + Math.floor(window / 60) * 3_600_000)
          .toISOString()
          .replace('.000', '');
      const keyOf = (window: number, tenant: string): string =>
        `evidence/${hourOf(window)}/${tenant}/${String(window).padStart(15, '0')}`;
      const windows = [0, 1, 2, 57, 58, 59, 60, 61, 118, 119];
      for (const window of windows) {
        await accept(ledger, {
          events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 2),
          records: ['a', 'a-b', 'b'].map((tenant) => ({
            key: keyOf(window, tenant),
            value: `${tenant} ${window}`,
          })),
        });
      }
      for (const tenant of ['a', 'a-b', 'b']) {
        for (const hour of [0, 60]) {
          const ofHour = windows.filter((window) => hourOf(window) === hourOf(hour));
          expect(await list(ledger, `evidence/${hourOf(hour)}/${tenant}/`)).toEqual(
            ofHour.map((window) => [keyOf(window, tenant), `${tenant} ${window}`]),
          );
        }
      }
      expect(await list(ledger, 'evidence/')).toHaveLength(3 * windows.length);
      expect(await list(ledger, 'journal/')).toEqual([]);
      expect(await list(ledger, `evidence/${hourOf(120)}/a/`)).toEqual([]);
      expect(await ledger.record(keyOf(57, 'a-b'))).toBe('a-b 57');
      expect(await ledger.record(keyOf(56, 'a-b'))).toBeUndefined();
      expect(await ledger.verify()).toMatchObject({ ok: true });
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

    test('a record is replaced, deleted and empty as written', async () => {
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
}
