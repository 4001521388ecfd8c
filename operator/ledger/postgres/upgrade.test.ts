import { expect, test } from 'vitest';
import type { LedgerDatabase } from '../../config/settings.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { VERSION_3_ROWS } from '../testing/postgres-version-3.ts';
import { createStepClock } from '../testing/step-clock.ts';
import { SQL as LEDGER } from './migrations/0001-ledger.ts';
import { SQL as COPIES } from './migrations/0002-copies.ts';
import { SQL as FINANCE } from './migrations/0003-finance.ts';

const used = usePostgres();
const properties = { basis: 'usage' };
const OLD = [
  { ...testEvent({ tenant: 'acme' }), properties },
  { ...testEvent({ tenant: 'acme', id: 'theirs-1', quantity: '2' }), properties },
  testEvent({ tenant: 'bravo', quantity: '12.5' }),
];

async function version3(): Promise<LedgerDatabase> {
  const database = await used.server().createDatabase();
  const text = `create schema meterfeed;
    create table meterfeed.version (version integer primary key, at timestamptz not null default now());
    ${LEDGER} ${COPIES} ${FINANCE}
    insert into meterfeed.version (version) values (1), (2), (3); ${VERSION_3_ROWS}`;
  await used.server().query(text, database.name);
  return database;
}

test('a ledger of the version before keeps its events, ids, chain, cursors and records, and goes on', async () => {
  const database = await version3();
  const clock = createStepClock(TEST_WINDOW_START + 2 * TEST_WINDOW_MS);
  const open = () => openTestStream(database, { clock });
  const ledger = await open();
  expect(await ledger.read(0, 10)).toStrictEqual({
    kind: 'page',
    events: OLD.map((event, index) => ({ sequence: index + 1, event })),
    lastSequence: 3,
  });
  expect(ledger.cursors()).toMatchObject([{ destination: 'lago', sequence: 2 }]);
  expect(await ledger.record('journal')).toBe('1');
  const next = [1, 2, 3].map((window) => ({
    ...testEvent({ tenant: 'acme', windowStart: TEST_WINDOW_START + window * TEST_WINDOW_MS }),
    properties,
  }));
  // The last one shares the properties of the series, which did not have any.
  for (const [index, event] of next.entries()) {
    expect(await ledger.append({ events: [event, ...OLD] })).toMatchObject({
      outcomes: ['accepted', 'duplicate', 'duplicate', 'duplicate'],
      head: 4 + index,
    });
  }
  await ledger.close();
  const again = await open();
  const all = [...OLD, ...next];
  expect(await again.read(0, 10)).toStrictEqual({
    kind: 'page',
    events: all.map((event, index) => ({ sequence: index + 1, event })),
    lastSequence: 6,
  });
  expect((await again.verify()).errors).toEqual([]);
  await again.close();
  const rows = await used
    .server()
    .query('select extra, foreign_id from meterfeed.event order by seq', database.name);
  expect(rows.slice(-2)).toEqual([
    { extra: {}, foreign_id: '' },
    { extra: {}, foreign_id: '' },
  ]);
  const ids = await used
    .server()
    .query('select id from meterfeed_v1.events order by sequence', database.name);
  expect(ids).toEqual(all.map(({ id }) => ({ id })));
});
