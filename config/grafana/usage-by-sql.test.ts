import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  TEST_WINDOW_MS,
  TEST_WINDOW_START,
  testEvent,
} from '../../operator/ledger/testing/events.ts';
import { openTestStream, usePostgres } from '../../operator/ledger/testing/postgres-ledger.ts';
import { createStepClock } from '../../operator/ledger/testing/step-clock.ts';
import { signedFromNanos } from '../../operator/model/decimal.ts';
import { Gaps } from '../../operator/metering/windows/gaps.ts';

const HOUR_MS = 3_600_000;
/** What the dashboard is looked at for. */
const FROM = TEST_WINDOW_START - HOUR_MS;
const TO = TEST_WINDOW_START + 3 * HOUR_MS;

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly rawSql: string; readonly format: string }[];
}

interface Variable {
  readonly name: string;
  readonly type: string;
  readonly query: string;
}

const dashboard = JSON.parse(
  readFileSync(join(import.meta.dirname, 'usage-by-sql.json'), 'utf8'),
) as { readonly panels: readonly Panel[]; readonly templating: { readonly list: Variable[] } };
const PAGE = readFileSync(join(import.meta.dirname, '../../docs/how-to/sql.md'), 'utf8');
/** What docs/how-to/sql.md has an administrator do for the user that reads, and for several clusters. */
const READER = [...PAGE.matchAll(/As an administrator[^\n]*\n\n```sql\n([\s\S]*?)```/g)]
  .map(([, sql]) => sql)
  .join('\n');

const panels = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ rawSql, format }) => ({ title, rawSql, format })),
);
const variables = dashboard.templating.list.filter(({ type }) => type === 'query');

const used = usePostgres();
let client: Client;

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** As Grafana does: macros of its PostgreSQL data source, and variables in the format `sqlstring`. */
function expanded(text: string): string {
  const chosen: Readonly<Record<string, readonly string[]>> = {
    cluster: ['berlin', 'paris'],
    tenant: ['acme', "o'brien"],
    metric: ['tenant_instance_hours'],
  };
  return text
    .replaceAll('$__timeFrom()', quoted(new Date(FROM).toISOString()))
    .replaceAll('$__timeTo()', quoted(new Date(TO).toISOString()))
    .replaceAll(/\$\{(\w+):sqlstring\}/g, (_, name: string) => {
      const values = chosen[name];
      if (values === undefined) throw new Error(`no variable: "${name}"`);
      return values.map(quoted).join(',');
    });
}

async function rowsOf(text: string): Promise<readonly Record<string, unknown>[]> {
  return (await client.query<Record<string, unknown>>(expanded(text))).rows;
}

async function panel(title: string): Promise<readonly Record<string, unknown>[]> {
  const [found, ...others] = panels.filter((each) => each.title === title);
  if (found === undefined || others.length > 0) throw new Error(`no panel: "${title}"`);
  return rowsOf(found.rawSql);
}

beforeAll(async () => {
  const database = await used.server().createDatabase();
  const clock = createStepClock(TEST_WINDOW_START + TEST_WINDOW_MS);
  const windowStart = TEST_WINDOW_START;
  const gaps = new Gaps();
  const reason = 'timed out';
  // Half an hour of it lies before what is looked at.
  gaps.note({
    source: 'metrics',
    scope: 'utilisation',
    from: FROM - 1_800_000,
    to: FROM + 60_000,
    reason,
  });
  const berlin = await openTestStream(database, { source: 'berlin', region: 'eu', clock });
  const taken = { ...testEvent({ tenant: 'acme', windowStart, id: 'back' }) };
  await berlin.append({
    events: [
      testEvent({ tenant: 'acme', windowStart, quantity: '0.5' }),
      testEvent({ tenant: 'acme', windowStart, quantity: '0.000000002', sku: 'large' }),
      testEvent({ tenant: "o'brien", windowStart: windowStart + HOUR_MS, quantity: '4' }),
      testEvent({ tenant: 'acme', windowStart: windowStart - 2 * 86_400_000, quantity: '99' }),
      { ...taken, quantity: signedFromNanos(-100_000_000n) },
    ],
    records: gaps.drain(),
  });
  await berlin.commitCursor('lago', 2);
  await berlin.close();
  const paris = await openTestStream(database, { source: 'paris', region: 'fr', clock });
  const theirs = testEvent({ tenant: 'acme', windowStart, quantity: '1', id: 'theirs' });
  await paris.append({ events: [theirs] });
  await paris.close();
  await used.server().query(READER, database.name);
  const { host, port, name } = database;
  client = new Client({ host, port, database: name, user: 'finance' });
  await client.connect();
});
afterAll(() => client.end());

describe('the dashboard of usage by SQL', () => {
  test('asks nothing that the user of docs/how-to/sql.md cannot be answered, in the form that its panel draws', async () => {
    expect(panels.length).toBeGreaterThan(10);
    for (const { title, rawSql, format } of panels) {
      const [row, ...rest] = await rowsOf(rawSql);
      expect(row, title).toBeDefined();
      if (format !== 'time_series') continue;
      for (const point of [row, ...rest]) {
        expect(point, title).toEqual({
          time: expect.any(Date),
          metric: expect.any(String),
          value: expect.any(Number),
        });
      }
    }
  });

  test('asks the views of version 1 alone, and for no more time than is looked at', () => {
    for (const { title, rawSql } of panels) {
      const sources = [...rawSql.matchAll(/\bfrom\s+(\w+_v\d+)\b/g)].map(([, name]) => name);
      expect(sources, title).toEqual([expect.stringMatching(/_v1$/)]);
    }
    // Cursors are as they are now.
    const endless = panels.filter(({ rawSql }) => !rawSql.includes('$__timeFrom()'));
    expect(endless.map(({ title }) => title)).toEqual(['Destinations']);
  });

  test('offers the clusters, tenants and metrics that there were', async () => {
    const offered = new Map<string, readonly string[]>();
    for (const { name, query } of variables) {
      const values = (await rowsOf(query)).map((row) => String(Object.values(row)[0]));
      offered.set(
        name,
        values.toSorted((a, b) => a.localeCompare(b, 'en')),
      );
    }
    expect(Object.fromEntries(offered)).toEqual({
      cluster: ['berlin', 'paris'],
      tenant: ['acme', "o'brien"],
      metric: ['tenant_instance_hours'],
    });
  });

  test('sums with every digit, corrections taken off, and nothing of other days', async () => {
    const metric = 'tenant_instance_hours';
    expect(await panel('Usage of each tenant')).toEqual([
      { tenant: 'acme', metric, quantity: '1.400000002', unit: 'hours' },
      { tenant: "o'brien", metric, quantity: '4', unit: 'hours' },
    ]);
    expect(await panel('$metric by class or model')).toEqual([
      { tenant: 'acme', sku: '', quantity: '1.4', unit: 'hours' },
      { tenant: 'acme', sku: 'large', quantity: '0.000000002', unit: 'hours' },
      { tenant: "o'brien", sku: '', quantity: '4', unit: 'hours' },
    ]);
    expect(await panel('$metric: the ten largest tenants')).toEqual([
      { tenant: "o'brien", quantity: 4 },
      { tenant: 'acme', quantity: 1.400000002 },
    ]);
    expect(await panel('$metric by tenant, each day')).toMatchObject([
      { time: new Date('2026-11-21T00:00:00Z'), metric: 'acme' },
      { time: new Date('2026-11-21T00:00:00Z'), metric: "o'brien" },
    ]);
  });

  test('tells what a destination was not given, and how much of the time was not measured', async () => {
    expect(await panel('Destinations')).toMatchObject([
      { cluster: 'berlin', destination: 'lago', events_behind: '3' },
    ]);
    expect(await panel('Not measured')).toEqual([{ seconds: 60 }]);
    expect(await panel('The newest corrections')).toMatchObject([{ quantity: '-0.1' }]);
  });
});
