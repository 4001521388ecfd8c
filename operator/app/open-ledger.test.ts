import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadEnvironment } from '../settings/load-environment.ts';
import { settingsFrom as settingsOf } from '../settings/testing/settings.ts';
import { DESTINATIONS } from '../destinations/registry.ts';
import type { OpenLedgerOutcome } from '../ledger/ledger.ts';
import { testWindow, TEST_WINDOW_START } from '../ledger/testing/events.ts';
import { silentLogger } from '../ledger/testing/level-ledger.ts';
import { usePostgres } from '../ledger/testing/postgres-ledger.ts';
import { createRegistry } from '../telemetry/registry.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { ledgerDatabases, openLedger } from './open-ledger.ts';

const used = usePostgres();
let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'open-ledger-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function open(environment: Readonly<Record<string, string>>): Promise<OpenLedgerOutcome> {
  const settings = settingsOf({ DATA_DIR: join(directory, 'data'), ...environment });
  const found = await ledgerDatabases(settings);
  if (found.kind === 'failed') return found;
  return openLedger(settings, found.databases[0], {
    clock: systemClock,
    logger: silentLogger,
    registry: createRegistry({ version: '0' }),
  });
}

async function urlOfEmptyDatabase(): Promise<string> {
  const { host, port, name, user } = await used.server().createDatabase();
  return `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`;
}

async function ledgerOf(outcome: Promise<OpenLedgerOutcome>) {
  const opened = await outcome;
  if (opened.kind === 'failed') throw new Error(opened.message);
  return opened.ledger;
}

describe('the ledger is', () => {
  test('in the database of LEDGER_URL, under CLUSTER_NAME, and DATA_DIR without one', async () => {
    const url = await urlOfEmptyDatabase();
    const common = { LEDGER_DURABILITY: 'storage', CLUSTER_NAME: 'berlin', REGION: 'eu' };
    const first = await ledgerOf(open({ ...common, LEDGER_URL: url }));
    await first.append({ events: testWindow(TEST_WINDOW_START, 3) });
    await first.close();
    const again = await ledgerOf(open({ ...common, LEDGER_URL: url }));
    expect(again.head()).toBe(3);
    await again.close();
    const other = await ledgerOf(open({ LEDGER_URL: url, CLUSTER_NAME: 'paris', REGION: 'fr' }));
    expect(other.head()).toBe(0);
    await other.close();
    const local = await ledgerOf(open(common));
    expect(local.head()).toBe(0);
    expect(local.stats().roomBytes).toBeGreaterThan(0);
    await local.close();
  });

  test('in a database that of the process that opened it last: the one before is refused', async () => {
    const url = await urlOfEmptyDatabase();
    const environment = { LEDGER_DURABILITY: 'storage', LEDGER_URL: url };
    const [one, other] = [await open(environment), await open(environment)];
    if (one.kind === 'failed' || other.kind === 'failed') throw new Error('not opened');
    expect([one.epoch, other.epoch]).toEqual([1, 2]);
    expect(await other.ledger.append({ events: testWindow(TEST_WINDOW_START, 3) })).toMatchObject({
      kind: 'appended',
    });
    expect(await one.ledger.writeRecords([{ key: 'k', value: 'v' }])).toMatchObject({
      cause: 'fenced',
    });
    await one.ledger.close();
    await other.ledger.close();
  });

  test('in the database that LEDGER_URL_FILE names', async () => {
    const file = join(directory, 'url');
    await writeFile(file, `${await urlOfEmptyDatabase()}\n`);
    const ledger = await ledgerOf(open({ LEDGER_URL_FILE: file }));
    expect(ledger.stats().ledgerId).toMatch(/^[0-9a-f-]{36}$/);
    await ledger.close();
  });

  test('in neither when both are given, and nowhere when the file is not there or says something else', async () => {
    const both = { LEDGER_URL: 'postgresql://m:geheim@h/l', LEDGER_URL_FILE: '/url' };
    const loaded = loadEnvironment(both, DESTINATIONS);
    expect(loaded).toMatchObject({
      kind: 'invalid',
      problems: [expect.stringMatching(/^LEDGER_URL_FILE: .*"\/url"; keep one/)],
    });
    const file = join(directory, 'url');
    expect(await open({ LEDGER_URL_FILE: file })).toMatchObject({
      cause: 'invalid',
      message: expect.stringContaining(file),
    });
    await writeFile(file, 'mysql://m:geheim@h/l');
    const refused = await open({ LEDGER_URL_FILE: file });
    expect(refused).toMatchObject({ cause: 'invalid' });
    expect(JSON.stringify(refused)).not.toContain('geheim');
  });
});
