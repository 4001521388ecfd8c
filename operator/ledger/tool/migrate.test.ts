import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { useLedgers } from '../testing/use-ledgers.ts';

const used = usePostgres();
const files = useLedgers();
const TOOL = join(import.meta.dirname, '..', '..', '..', 'scripts', 'ledger.ts');

let database: LedgerDatabase;
let directory: string;

async function tool(variables: Readonly<Record<string, string>>, ...args: string[]) {
  const { user, host, port, name } = database;
  const url = `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`;
  const env = { ...process.env, LEDGER_URL: url, ...variables };
  const child = spawn(process.execPath, [TOOL, 'migrate', ...args], { env });
  const closed = once(child, 'close');
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode, output, errors };
}

beforeEach(async () => {
  database = await used.server().createDatabase();
  directory = await files.directory();
  const ledger = await files.open(directory);
  await ledger.append({ events: testWindow(TEST_WINDOW_START, 4) });
  await ledger.close();
});

describe('npm run ledger -- migrate', () => {
  const names = ['--stream', 'berlin', '--region', 'eu'];
  const storage = { LEDGER_DURABILITY: 'storage' };

  test('copies a directory into the named stream, and prints what is there', async () => {
    const ran = await tool(storage, directory, ...names);
    expect(ran).toMatchObject({ code: 0, errors: '' });
    expect(JSON.parse(ran.output)).toMatchObject({ kind: 'copied', lastSequence: 4 });
    const ledger = await openTestStream(database, { source: 'berlin', region: 'eu' });
    expect(ledger.head()).toBe(4);
    await ledger.close();
    const again = await tool(storage, directory, ...names);
    expect(JSON.parse(again.output)).toMatchObject({ kind: 'finished' });
  });

  test('stores nothing as durable that no standby has, except on request', async () => {
    const ran = await tool({}, directory, ...names);
    expect(ran.code).toBe(2);
    expect(ran.errors).toContain('no synchronous standby is configured');
  });

  test('explains itself without a name, and refuses what is no durability', async () => {
    const incomplete = await tool(storage, directory, '--stream', 'berlin');
    expect(incomplete).toMatchObject({ code: 2, errors: expect.stringContaining('usage:') });
    const wrong = await tool({ LEDGER_DURABILITY: 'maybe' }, directory, ...names);
    expect(wrong.errors).toContain('LEDGER_DURABILITY: not one of standby, storage: "maybe"');
  });

  test('names what has the directory open', async () => {
    const ledger = await files.open(directory);
    const ran = await tool(storage, directory, ...names);
    expect(ran).toMatchObject({ code: 2, errors: expect.stringContaining('stop the operator') });
    await ledger.close();
  });
});
