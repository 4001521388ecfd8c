import { expect, test } from 'vitest';
import type { UsageEvent } from '../../model/event.ts';
import { dayOf, partitionOf } from './days.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';

const used = usePostgres();

const pageOf = (events: readonly UsageEvent[]) => ({
  kind: 'page',
  events: events.map((event, index) => ({ sequence: index + 1, event })),
  lastSequence: events.length,
});

test('an id of characters that mean something to COPY stays what it is, and is found again', async () => {
  const database = await used.server().createDatabase();
  const ledger = await openTestStream(database);
  const ids = [
    'a\tb',
    'a\nb',
    '\\n',
    '\\N',
    '\\.',
    '\r\n\\',
    '\'"',
    ' ',
    '',
    '\0',
    '\uD800',
    'é$&',
  ];
  const events = ids.map((id) => ({ ...testEvent({ id }), properties: { note: `${id}\\\t` } }));
  await ledger.append({ events });
  expect(await ledger.read(0, 100)).toStrictEqual(pageOf(events));
  for (const event of events) expect(await ledger.find(event.id)).toStrictEqual(event);
  expect(await ledger.append({ events })).toMatchObject({ outcomes: ids.map(() => 'duplicate') });
  await ledger.close();
});

test('events of one tenant and metric that differ in their unit or in the order of their fields are not mixed up', async () => {
  const database = await used.server().createDatabase();
  const ledger = await openTestStream(database);
  const events = [0, 1, 2].flatMap((window) => {
    const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
    const [first, second, third] = ['a', 'b', 'c'].map((sku) => testEvent({ windowStart, sku }));
    if (first === undefined || second === undefined || third === undefined) return [];
    const { sku: _, ...plain } = second;
    const { quantity, ...others } = third;
    return [
      { ...first, unit: 'days', sku: 'x' },
      { ...plain, unit: 'hours', sku: 'x' },
      { sku: 'x', quantity, ...others },
    ].map((event, index) => ({ ...event, sku: 'x', id: `${window}-${index}` }));
  });
  for (let from = 0; from < events.length; from += 3) {
    await ledger.append({ events: events.slice(from, from + 3) });
  }
  const page = await ledger.read(0, 100);
  expect(page).toStrictEqual(pageOf(events));
  const stored = page.kind === 'page' ? page.events.map(({ event }) => Object.keys(event)) : [];
  expect(stored.map((keys) => keys.filter((key) => key !== 'quantity'))).toEqual(
    events.map((event) => Object.keys(event).filter((key) => key !== 'quantity')),
  );
  expect((await ledger.verify()).errors).toEqual([]);
  await ledger.close();
});

test('kinds of usage that are new in the midst of a large batch cost no event and give none another kind', async () => {
  const database = await used.server().createDatabase();
  const before = await openTestStream(database);
  const windows = [0, 1, 2].map((window) => {
    const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
    // Each window has kinds of the one before, stored ones that nobody remembers, and new ones.
    return Array.from({ length: 450 }, (_, index) =>
      testEvent({ windowStart, tenant: `t${index < 220 ? index : index + window * 100}` }),
    );
  });
  const [first = [], ...others] = windows;
  await before.append({ events: first });
  await before.close();
  const ledger = await openTestStream(database);
  await ledger.append({
    events: first.slice(0, 220).map((event) => ({ ...event, id: `x${event.id}` })),
  });
  for (const events of others) await ledger.append({ events });
  const stored = [...first, ...first.slice(0, 220), ...others.flat()];
  const page = await ledger.read(0, 5_000);
  expect(page.kind === 'page' && page.events.map(({ event }) => event.tenant)).toEqual(
    stored.map(({ tenant }) => tenant),
  );
  expect((await ledger.verify()).errors).toEqual([]);
  await ledger.close();
});

test('a day whose table another process has dropped is made again, and its batch stored once', async () => {
  const database = await used.server().createDatabase();
  const clock = createStepClock(TEST_WINDOW_START + TEST_WINDOW_MS);
  const ledger = await openTestStream(database, { clock });
  await ledger.append({ events: [testEvent({ tenant: 'a' })] });
  const day = dayOf(clock.now());
  await used.server().query(`drop table ${partitionOf(day)}`, database.name);
  // Sent in several pieces, each of which the server refuses.
  const next = testWindow(TEST_WINDOW_START + TEST_WINDOW_MS, 600);
  expect(await ledger.append({ events: next })).toMatchObject({ kind: 'appended', head: 601 });
  const page = await ledger.read(1, 1_000);
  expect(page.kind === 'page' && page.events.map(({ event }) => event)).toEqual(next);
  await ledger.close();
});

test('rows that stand in the table in another order than their numbers are read in that order, or taken for missing', async () => {
  const database = await used.server().createDatabase();
  const clock = createStepClock(TEST_WINDOW_START + TEST_WINDOW_MS);
  const ledger = await openTestStream(database, { clock });
  const events = testWindow(TEST_WINDOW_START, 300);
  await ledger.append({ events });
  const table = partitionOf(dayOf(clock.now()));
  const moved = `with gone as (delete from ${table} returning *) insert into ${table} select * from gone order by seq desc`;
  await used.server().query(moved, database.name);
  const [first] = await used.server().query(`select seq from ${table} limit 1`, database.name);
  expect(first?.['seq']).toBe('300');
  expect(await ledger.read(0, 1_000)).toStrictEqual(pageOf(events));
  await ledger.close();
});
