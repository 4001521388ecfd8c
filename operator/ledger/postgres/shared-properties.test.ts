import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { inspectStream } from './inspect-stream.ts';
import { readPage } from './reading.ts';

const used = usePostgres();

function eventOf(window: number, properties: UsageEvent['properties']): UsageEvent {
  const event = testEvent({ windowStart: TEST_WINDOW_START + window * TEST_WINDOW_MS });
  return { ...event, ...omitUndefined({ properties }) };
}

const someProperties = fc.constantFrom<UsageEvent['properties']>(
  undefined,
  {},
  { basis: 'usage' },
  { basis: 'requests' },
  { basis: 'usage', uncertain_seconds: 3 },
  { uncertain_seconds: 3, basis: 'usage' },
  { unverified: true },
  { note: '\0\uD800' },
  { note: 'x'.repeat(600) },
);

test('properties that come, change and go between events of one kind come back as they were', async () => {
  let run = 0;
  const database = await used.server().createDatabase();
  const batches = fc.array(fc.array(someProperties, { minLength: 1, maxLength: 4 }), {
    minLength: 1,
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(batches, async (wishes) => {
      run += 1;
      const stream = { source: `cluster-${run}`, region: `region-${run}` };
      const ledger = await openTestStream(database, stream);
      const events: UsageEvent[] = [];
      for (const wish of wishes) {
        const batch = wish.map((properties, index) => eventOf(events.length + index, properties));
        events.push(...batch);
        expect(await ledger.append({ events: batch })).toMatchObject({ head: events.length });
      }
      const stored = {
        kind: 'page',
        events: events.map((event, index) => ({ sequence: index + 1, event })),
        lastSequence: events.length,
      };
      expect(await ledger.read(0, 100)).toStrictEqual(stored);
      await ledger.close();
      const again = await openTestStream(database, stream);
      expect(await again.read(0, 100)).toStrictEqual(stored);
      const outcome = await again.append({ events });
      expect(outcome).toMatchObject({ outcomes: events.map(() => 'duplicate') });
      expect((await again.verify()).errors).toEqual([]);
      await again.close();
    }),
    { numRuns: 25 },
  );
}, 60_000);

test('a reader that knows a kind of usage from before its properties were shared calls nothing damaged', async () => {
  const database = await used.server().createDatabase();
  const ledger = await openTestStream(database);
  const properties = { gpu_devices: 4 };
  await ledger.append({ events: [eventOf(0, properties)] });
  const reader = await inspectStream(database, undefined);
  expect(await readPage(reader.view, 0, 10)).toMatchObject({ lastSequence: 1 });
  for (const window of [1, 2]) await ledger.append({ events: [eventOf(window, properties)] });
  const rows = await used
    .server()
    .query('select extra from meterfeed.event order by seq', database.name);
  expect(rows).toEqual([{ extra: { properties } }, { extra: {} }, { extra: {} }]);
  const now = await inspectStream(database, undefined);
  const view = { ...reader.view, contents: now.view.contents };
  expect(await readPage(view, 0, 10)).toEqual(await ledger.read(0, 10));
  await ledger.close();
  await reader.close();
  await now.close();
});
