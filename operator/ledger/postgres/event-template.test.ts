import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { testEvent } from '../testing/events.ts';
import { columnsOf, splitEvent } from './event-rows.ts';
import { createTemplate } from './event-template.ts';
import { ReadSeriesMaker } from './read-series.ts';

const anyText = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 });
const storable = anyText.map((text) => text.toWellFormed().replaceAll('\0', ''));

/** Events in any order of their fields, with ids of ours and of others. */
const events = fc
  .record({
    tenant: storable,
    sku: fc.option(storable, { nil: undefined }),
    id: fc.option(
      storable.filter((id) => id !== ''),
      { nil: undefined },
    ),
    note: storable,
    milliseconds: fc.constantFrom(0, 1, 250),
    quantity: fc.constantFrom('0', '12', '0.000000001', '-3.5', '123456789012.25'),
    order: fc.infiniteStream(fc.nat()),
  })
  .map(({ id, tenant, sku, note, milliseconds, quantity, order }): UsageEvent => {
    const windowStart = 1_763_715_600_000 + milliseconds;
    const event = testEvent({
      windowStart,
      tenant,
      ...(sku !== undefined && { sku }),
      ...(id !== undefined && { id }),
    });
    const start = new Date(windowStart).toISOString().replace('.000Z', 'Z');
    const whole = { ...event, window_start: start, properties: { note }, quantity };
    const shuffled = Object.entries(whole)
      .map((entry) => ({ entry, at: order.next().value ?? 0 }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ entry }) => entry);
    return Object.fromEntries(shuffled) as object as UsageEvent;
  });

const maker = new ReadSeriesMaker();

test('what a template makes of a row is its event, and its text has the checksum', () => {
  fc.assert(
    fc.property(events, fc.nat(2 ** 32 - 1), (event, seed) => {
      const { series } = splitEvent(event);
      const properties = JSON.stringify(event.properties);
      const template = createTemplate({ ...series, properties });
      const row = columnsOf(event);
      expect(template?.textOf(row)).toBe(encodeEvent(event));
      expect(template?.makes(row, encodeEvent(event))).toBe(true);
      const checksum = crc32(encodeEvent(event), seed) | 0;
      const read = maker.make({ ...series, properties }).template;
      expect(read?.eventWith(checksum, seed, row)).toEqual(event);
      expect(read?.eventWith(checksum ^ 1, seed, row)).toBeUndefined();
    }),
  );
});
