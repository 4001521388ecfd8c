import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { decimalFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { decodeSums, SumRows } from './sum-rows.ts';

/** Identities of which one begins like another, and some whose text looks like the end of a row. */
const METRICS = ['cpu', 'cpu"', 'cpu\\', 'cpu]', '],[', ',"1",1]', 'ü', '\u{1F600}'];

const anyEvent = fc
  .record({
    metric: fc.constantFrom(...METRICS),
    dimension: fc.constantFrom(undefined, 'a', 'a"]', '[["'),
    nanos: fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }),
  })
  .map(({ metric, dimension, nanos }): UsageEvent => {
    const { dimensions: _, ...event } = testEvent();
    const size = decimalFromNanos(nanos < 0n ? -nanos : nanos);
    return {
      ...event,
      metric,
      quantity: (nanos < 0n ? `-${size}` : size) as UsageEvent['quantity'],
      ...(dimension !== undefined && { dimensions: { [dimension]: dimension } }),
    };
  });

function rowsOf(events: readonly UsageEvent[]): SumRows {
  const rows = new SumRows();
  for (const event of events) rows.addEvent(event);
  return rows;
}

/** By identity: the exact sum, and of how many events it is. */
function sumsIn(text: string): ReadonlyMap<string, string> {
  const sums = [...decodeSums('a', '2026-11-21', text)].map(({ item, events }) => {
    const { quantity, window_start: _, tenant: __, ...identity } = item;
    return [JSON.stringify(identity), `${nanosFromDecimal(quantity)} of ${events}`] as const;
  });
  expect(new Set(sums.map(([identity]) => identity)).size).toBe(sums.length);
  return new Map(sums);
}

test('no window is counted twice or left out, in whatever order its sums come after those that are stored', () => {
  fc.assert(
    fc.property(fc.array(fc.array(anyEvent, { maxLength: 12 }), { maxLength: 5 }), (windows) => {
      const stored = windows.reduce((text, events) => rowsOf(events).encodeAfter(text), '[]');
      expect(sumsIn(stored)).toStrictEqual(sumsIn(rowsOf(windows.flat()).encodeAfter('[]')));
      expect(sumsIn(SumRows.of(windows.map(rowsOf)).encodeAfter('[]'))).toStrictEqual(
        sumsIn(stored),
      );
    }),
  );
});

test('what is stored before is not parsed into other sums where it is damaged', () => {
  const rows = rowsOf([testEvent()]);
  const stored = rows.encodeAfter('[]');
  for (let end = 0; end < stored.length; end += 1) {
    expect(() => rows.encodeAfter(stored.slice(0, end))).toThrow(/JSON|usage sums/);
  }
  expect(() => rows.encodeAfter(stored.replace(/,"[^"]*",1]]$/, ',"1e3",1]]'))).toThrow('1e3');
  expect(() => rows.encodeAfter(stored.replace(',1]]', ',one]]'))).toThrow('one');
});
