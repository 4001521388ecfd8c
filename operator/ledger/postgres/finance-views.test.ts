import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { signedFromNanos } from '../../model/decimal.ts';
import { Gaps } from '../../metering/windows/gaps.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../../docs/how-to/sql.md'), 'utf8');
/** The results that the page shows, by the preceding question. */
const SHOWN = new Map(
  [...PAGE.matchAll(/^(\S[^\n]*)\n\n```sql\n([\s\S]*?)```$/gm)].map(([, title = '', sql = '']) => [
    title,
    sql,
  ]),
);
const HOUR_MS = 3_600_000;
const CORRECTION = signedFromNanos(-100_000_000n);

const used = usePostgres();
let client: Client;

function shown(title: string): string {
  const [found, ...others] = [...SHOWN].filter(([text]) => text.startsWith(title));
  if (found === undefined || others.length > 0) throw new Error(`docs/how-to/sql.md: "${title}"`);
  return found[1];
}

async function rowsOf(text: string): Promise<readonly Record<string, unknown>[]> {
  return (await client.query<Record<string, unknown>>(text)).rows;
}

beforeAll(async () => {
  const database = await used.server().createDatabase();
  const clock = createStepClock(TEST_WINDOW_START + TEST_WINDOW_MS);
  const open = (source: string, region: string) =>
    openTestStream(database, { source, region, clock });
  const acme = { tenant: 'acme', windowStart: TEST_WINDOW_START };
  const next = { tenant: 'acme', windowStart: TEST_WINDOW_START + HOUR_MS };
  const berlin = await open('berlin', 'eu');
  const gaps = new Gaps();
  const from = TEST_WINDOW_START;
  const reason = 'timed out\0after 30 s';
  gaps.note({ source: 'metrics', scope: 'utilisation', from, to: from + 60_000, reason });
  await berlin.append({
    events: [
      testEvent({ ...acme, quantity: '0.1' }),
      testEvent({ ...acme, quantity: '0.000000002', sku: 'large' }),
      testEvent({ ...next, quantity: '12345678901234567890.5' }),
    ],
    records: gaps.drain(),
    windowEnd: TEST_WINDOW_START + TEST_WINDOW_MS,
  });
  await berlin.commitCursor('lago', 1);
  await berlin.close();
  const paris = await open('paris', 'fr');
  await paris.append({
    events: [{ ...testEvent({ ...acme, id: 'theirs' }), quantity: CORRECTION }],
  });
  await paris.close();
  const server = used.server();
  await server.query(shown('As an administrator'), database.name);
  await server.query(shown('Views in a schema of your own'), database.name);
  const { host, port, name } = database;
  client = new Client({ host, port, database: name, user: 'finance' });
  await client.connect();
});
afterAll(() => client.end());

describe('a query of docs/how-to/sql.md', () => {
  test('sums a month with every digit, over all clusters', async () => {
    expect(await rowsOf(shown('What did each tenant use'))).toEqual([
      {
        tenant: 'acme',
        metric: 'tenant_instance_hours',
        unit: 'hours',
        quantity: '12345678901234567890.500000002',
      },
    ]);
    const metric = 'tenant_instance_hours';
    expect(await rowsOf(shown('By which class'))).toEqual([
      { metric, sku: '', quantity: '12345678901234567890.5' },
      { metric, sku: 'large', quantity: '0.000000002' },
    ]);
  });

  test('gives hours, and the events that make one up with the ids that billing systems have', async () => {
    expect(await rowsOf(shown('In which hours'))).toEqual([
      { hour: new Date(TEST_WINDOW_START), quantity: '0.000000002' },
      { hour: new Date(TEST_WINDOW_START + HOUR_MS), quantity: '12345678901234567890.5' },
    ]);
    const events = await rowsOf(shown('Which events'));
    const first = testEvent({ tenant: 'acme', quantity: '0.1' });
    expect(events).toMatchObject([
      { id: first.id, window_start: new Date(TEST_WINDOW_START), quantity: '0.1' },
      { sku: 'large', tenant_cluster: 'tenant-vcluster-a-a' },
      { id: 'theirs', quantity: '-0.1' },
    ]);
  });

  test('show what a destination did not receive, and what was not measured', async () => {
    expect(await rowsOf(shown('Has every billing system'))).toEqual([
      {
        cluster: 'berlin',
        destination: 'lago',
        events_behind: '2',
        window_end: new Date(TEST_WINDOW_START + TEST_WINDOW_MS),
      },
    ]);
    expect(await rowsOf(shown('What is missing'))).toEqual([
      {
        cluster: 'berlin',
        scope: 'utilisation',
        source: 'metrics',
        gap_start: new Date(TEST_WINDOW_START),
        gap_end: new Date(TEST_WINDOW_START + 60_000),
        reason: 'timed out\u{FFFD}after 30 s',
      },
    ]);
  });

  test('is one of those that are tested here', () => {
    expect(SHOWN.size).toBe(PAGE.split('```sql').length - 1);
    expect(SHOWN.size).toBe(8);
  });
});

test('the views of a copy that is not complete are empty', async () => {
  const database = await used.server().createDatabase();
  const rome = await openTestStream(database, { source: 'rome', region: 'it' });
  await rome.append({ events: [testEvent()] });
  await rome.close();
  const counted = 'select (select count(*) from meterfeed_rome.sums_by_day_v1)::int as days';
  expect(await used.server().query(counted, database.name)).toEqual([{ days: 1 }]);
  await used.server().query(`update meterfeed_rome.stream set copied_from = 'x'`, database.name);
  expect(await used.server().query(counted, database.name)).toEqual([{ days: 0 }]);
});

describe('the user that the page makes', () => {
  test('sees no table, changes nothing, and is not waited for', async () => {
    for (const table of ['meterfeed_berlin.record', 'meterfeed_paris.event']) {
      await expect(rowsOf(`select from ${table}`)).rejects.toThrow('permission denied');
    }
    await expect(rowsOf('create temporary table a ()')).rejects.toThrow('read-only');
    await client.query("set statement_timeout = '100ms'");
    await expect(rowsOf('select pg_sleep(60) from events_v1')).rejects.toThrow('statement timeout');
    await client.query('reset statement_timeout');
    expect(await rowsOf('show statement_timeout')).toEqual([{ statement_timeout: '1min' }]);
  });
});
