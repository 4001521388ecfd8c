import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { useLedgers } from '../testing/use-ledgers.ts';

const used = usePostgres();
const files = useLedgers();
const TOOL = join(import.meta.dirname, '..', '..', '..', 'scripts', 'ledger.ts');

let database: LedgerDatabase;
let ledger: Ledger;

async function tool(command: string, ...args: string[]) {
  const { user, host, port, name } = database;
  const env = {
    ...process.env,
    LEDGER_URL: `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`,
  };
  const child = spawn(process.execPath, [TOOL, command, 'database', ...args], { env });
  const closed = once(child, 'close');
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode, output, errors };
}

beforeEach(async () => {
  database = await used.server().createDatabase();
  ledger = await openTestStream(database, { source: 'berlin', region: 'eu' });
  for (let window = 0; window < 3; window++) {
    await ledger.append({ events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 4) });
  }
  await ledger.commitCursor('lago', 9);
});
afterEach(async () => {
  await ledger.close();
});

test('what a stream holds is dumped, summed and compared as from files, while an operator writes it', async () => {
  const directory = await files.directory();
  const other = await files.open(directory);
  for (let window = 0; window < 3; window++) {
    await other.append({ events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 4) });
  }
  expect(other.stats().chain).toBe(ledger.stats().chain);
  const dump = (await tool('dump', '--from', '2', '--to', '5')).output.trim().split('\n');
  expect(dump).toHaveLength(4);
  expect(dump[0]).toMatch(/^\{"sequence":2,"event":\{.*"quantity":0\.016666667\}\}$/);
  expect((await tool('sum')).output.trim().split('\n')).toHaveLength(4);
  expect(JSON.parse((await tool('cursors')).output)).toMatchObject({
    destination: 'lago',
    sequence: 9,
  });
  const exported = join(directory, 'export');
  await writeFile(exported, dump.map((line) => JSON.stringify(JSON.parse(line).event)).join('\n'));
  expect((await tool('diff', '--export', exported)).output).toContain('"equal":4,"missing":8');
  expect(await ledger.append({ events: [] })).toMatchObject({ head: 12 });
});

test('verify reads everything, and an anchor beyond the head says how many of the newest events are missing', async () => {
  const { chain } = ledger.stats();
  expect(await tool('verify', '--anchor', `12:${chain}`)).toMatchObject({ code: 0 });
  const lost = await tool('verify', '--anchor', `20:${chain}`);
  expect(lost.code).toBe(1);
  expect(lost.output).toContain('events 13 to 20 are missing');
  await used
    .server()
    .query('update meterfeed_berlin.event set quantity = 5 where seq = 3', database.name);
  const damaged = await tool('verify');
  expect(damaged.code).toBe(1);
  expect(damaged.output).toContain('event 3 is damaged');
});

test('the FOCUS file of a month comes from a database as from files, while an operator writes it', async () => {
  const out = await files.directory();
  const rates = [{ from: '2026-01-01', amount: '0.3' }];
  const prices = [{ name: 'hours', metric: 'tenant_instance_hours', rates }];
  const book = { uid: 'u', spec: { currency: 'EUR', prices } };
  await ledger.writeRecords([
    { key: 'costs/book/tenant-standard', value: JSON.stringify(book) },
    ...[0, 1, 2, 3].map((tenant) => ({
      key: `costs/plan/tenant-vcluster-${tenant}-main`,
      value: '[["","tenant-standard"]]',
    })),
  ]);
  const ran = await tool('focus', '--month', '2026-11', '--out', out);
  expect(ran).toMatchObject({ code: 0, errors: '' });
  const [data = '', manifest = ''] = ran.output.trim().split('\n');
  const lines = gunzipSync(await readFile(join(out, data)))
    .toString()
    .trimEnd()
    .split('\r\n');
  expect(lines).toHaveLength(5);
  expect(lines[1]).toContain(',0.0150000003,');
  expect(JSON.parse(await readFile(join(out, manifest), 'utf8'))).toMatchObject({
    period_status: 'Open',
    files: [{ name: data, rows: 4 }],
  });
  const newer = await tool('focus', '--month', '2026-11', '--out', out, '--focus-version', '1.4');
  expect(newer.output.trim().split('\n')).toStrictEqual(
    [data, manifest].map((name) => name.replace('focus-1.2/', 'focus-1.4/')),
  );
  const unknown = await tool('focus', '--month', '2026-11', '--out', out, '--focus-version', '1.3');
  expect(unknown.code).toBe(2);
  const wrong = await tool('focus', '--month', '2026-13', '--out', out);
  expect(wrong).toMatchObject({
    code: 2,
    errors: expect.stringContaining('--month: not a month such as 2026-11: "2026-13"'),
  });
});

test('one of several streams has to be named', async () => {
  await (await openTestStream(database, { source: 'paris', region: 'fr' })).close();
  expect(await tool('cursors')).toMatchObject({
    code: 2,
    errors: expect.stringContaining('berlin, paris'),
  });
  expect(await tool('cursors', '--stream', 'paris')).toMatchObject({ code: 0, output: '' });
});
