import { expect, test } from 'vitest';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { partitionOf, weekOf } from './weeks.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';

const used = usePostgres();

const pageOf = (events: readonly UsageEvent[]) => ({
  kind: 'page',
  events: events.map((event, index) => ({ sequence: index + 1, event })),
  lastSequence: events.length,
});

test('an id of any characters stays what it is, and is found again', async () => {
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

test('events come back with the text that they were accepted with, whatever the order of their fields', async () => {
  const database = await used.server().createDatabase();
  const ledger = await openTestStream(database);
  const { quantity, ...others } = testEvent({ sku: 'x' });
  const turned = { sku: 'x', quantity, ...others, id: 'turned' };
  const plain = { ...testEvent({ sku: 'x' }), dimensions: { b: '2', a: '1' }, id: 'plain' };
  const events = [plain, turned, { ...plain, id: 'half', recorded_at: '2026-11-21T09:01:03.250Z' }];
  await ledger.append({ events });
  const page = await ledger.read(0, 100);
  const texts = page.kind === 'page' ? page.events.map(({ event }) => encodeEvent(event)) : [];
  expect(texts).toEqual(events.map(encodeEvent));
  expect((await ledger.verify()).errors).toEqual([]);
  await ledger.close();
});

test('a row says everything in its columns where an event came through the door, and in original where it cannot', async () => {
  const database = await used.server().createDatabase();
  const ledger = await openTestStream(database);
  const event = { ...testEvent({ sku: 'é \u{1F4B6}' }), properties: { backfilled: true, n: 0.5 } };
  const at = (recorded_at: string) => ({ ...event, id: recorded_at, recorded_at });
  const columns = [event, at('2026-11-21T09:01:03Z'), at('2026-11-21T09:01:03.250Z')];
  const others = [at('2026-11-21T09:01:03.2Z'), at('2026-11-21T09:01:03.123456789Z')];
  await ledger.append({ events: [...columns, ...others] });
  const text = 'select original from meterfeed_cluster_a.event order by seq';
  const rows = await used.server().query(text, database.name);
  expect(rows.map(({ original }) => original)).toEqual([
    ...columns.map(() => null),
    ...others.map(encodeEvent),
  ]);
  const shown = `select id, tenant, quantity::text, window_start, dimensions ->> 'tenant_class' as class
    from meterfeed_cluster_a.event where seq = 1`;
  expect(await used.server().query(shown, database.name)).toEqual([
    {
      id: event.id,
      tenant: event.tenant,
      quantity: event.quantity,
      window_start: new Date(TEST_WINDOW_START),
      class: 'dev',
    },
  ]);
  await ledger.close();
});

test('rows that stand in the table in another order than their numbers are read in that order, or taken for missing', async () => {
  const database = await used.server().createDatabase();
  const clock = createStepClock(TEST_WINDOW_START + TEST_WINDOW_MS);
  const ledger = await openTestStream(database, { clock });
  const events = testWindow(TEST_WINDOW_START, 300);
  await ledger.append({ events });
  const table = partitionOf('meterfeed_cluster_a', weekOf(clock.now()));
  const moved = `with gone as (delete from ${table} returning *) insert into ${table} select * from gone order by seq desc`;
  await used.server().query(moved, database.name);
  const [first] = await used.server().query(`select seq from ${table} limit 1`, database.name);
  expect(first?.['seq']).toBe('300');
  expect(await ledger.read(0, 1_000)).toStrictEqual(pageOf(events));
  await ledger.close();
});
