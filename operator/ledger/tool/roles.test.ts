import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createFleetDatabase } from '../postgres/fleet-database.ts';
import { HubLease } from '../postgres/hub-lease.ts';
import { openPostgresLedger } from '../postgres/open-postgres-ledger.ts';
import { testEvent } from '../testing/events.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { postgresOptions } from '../testing/postgres-options.ts';
import { rolesSql } from './roles.ts';

const used = usePostgres();
const TOOL = join(import.meta.dirname, '..', '..', '..', 'scripts', 'ledger.ts');
const BERLIN = 'meterfeed_berlin';
const PARIS = 'meterfeed_paris';
const HUB = 'meterfeed_hub';
/** The tables of a stream that a hub may read. */
const SHOWN_TO_HUB = [
  'batch',
  'event',
  'published_cursor',
  'published_record',
  'rollup',
  'segment',
  'stream',
];

let database: LedgerDatabase;
const clients = new Map<string, Client>();
/** The hub's reads of each stream: a record and a page. */
const hubRead: unknown[] = [];

function tool(...args: string[]) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [TOOL, 'roles', ...args], {
    encoding: 'utf8',
  });
  return { stdout, stderr, status };
}

async function clientOf(role: string): Promise<Client> {
  const { host, port, name } = database;
  const client = clients.get(role) ?? new Client({ host, port, database: name, user: role });
  if (!clients.has(role)) await client.connect();
  clients.set(role, client);
  return client;
}

/** Tables, partitions and views of a schema. */
async function relationsOf(schema: string): Promise<readonly string[]> {
  const text = `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = '${schema}' and c.relkind in ('r', 'p', 'v') order by 1`;
  return (await used.server().query(text, database.name)).map(({ name }) => String(name));
}

/** The complete content of a schema, as its owner sees it. */
async function contentOf(schema: string): Promise<readonly unknown[]> {
  const content: unknown[] = [];
  for (const name of await relationsOf(schema)) {
    content.push([
      name,
      await used.server().query(`select t::text from ${schema}.${name} t`, database.name),
    ]);
  }
  return content;
}

const VERBS: Readonly<Record<string, (relation: string, schema: string) => string>> = {
  select: (relation) => `select * from ${relation}`,
  insert: (relation) => `insert into ${relation} select * from ${relation}`,
  'insert defaults': (relation) => `insert into ${relation} default values`,
  update: (relation) => `update ${relation} set ctid = ctid`,
  delete: (relation) => `delete from ${relation}`,
  truncate: (relation) => `truncate ${relation}`,
  lock: (relation) => `lock table ${relation} in access exclusive mode`,
  copy: (relation) => `copy ${relation} from stdin`,
  trigger: (relation) => `create trigger t before insert on ${relation} execute function now()`,
  rule: (relation) => `create rule r as on insert to ${relation} do nothing`,
  policy: (relation) => `alter table ${relation} enable row level security`,
  owner: (relation) => `alter table ${relation} owner to current_user`,
  drop: (relation) => `drop table ${relation} cascade`,
  create: (_, schema) => `create table ${schema}.mine ()`,
  'drop schema': (_, schema) => `drop schema ${schema} cascade`,
  'become the role': (_, schema) => `set role ${schema}`,
};

/**
 * The actions on a schema that a role may perform: `verb relation`. Every attempt is rolled back.
 */
async function allowed(role: string, schema: string): Promise<readonly string[]> {
  const client = await clientOf(role);
  const done: string[] = [];
  for (const name of await relationsOf(schema)) {
    for (const [verb, statement] of Object.entries(VERBS)) {
      await client.query('begin');
      const outcome = await client.query(statement(`${schema}.${name}`, schema)).then(
        () => 'done',
        (error: unknown) => error,
      );
      await client.query('rollback');
      if (outcome === 'done') done.push(`${verb} ${name}`);
    }
  }
  return done;
}

beforeAll(async () => {
  database = await used.server().createDatabase();
  const printed = tool('--stream', 'berlin', '--stream', 'paris', '--hub');
  if (printed.status !== 0) throw new Error(printed.stderr);
  await used.server().query(printed.stdout, database.name);
  for (const source of ['berlin', 'paris']) {
    const as = { ...database, user: `meterfeed_${source}` };
    const ledger = await openTestStream(as, { source, region: source });
    await ledger.append({
      events: [testEvent({ tenant: source })],
      records: [
        { key: 'journal/state', value: 'secret' },
        { key: 'fleet/report', value: source },
      ],
    });
    await ledger.commitCursor('own', 1);
    await ledger.retain(Date.now());
    await ledger.close();
  }
  const options = {
    database: { ...database, user: HUB },
    clock: systemClock,
    logger: silentLogger,
  };
  const lease = new HubLease({ ...options, owner: 'hub-1' });
  const fleet = createFleetDatabase({ ...options, durability: 'storage', retentionMs: 1 });
  const done = new AbortController();
  await lease.run(done.signal, async (epoch) => {
    for (const { source, region } of await fleet.streams()) {
      const opened = await fleet.open({ source, region }, epoch);
      if (opened.kind === 'failed') throw new Error(opened.message);
      await opened.ledger.commitCursor('lago', 1);
      hubRead.push(await opened.ledger.record('fleet/report'), await opened.ledger.read(0, 10));
      await opened.ledger.close();
    }
    done.abort();
  });
});
afterAll(async () => {
  for (const client of clients.values()) await client.end();
});

describe('a role that the printed SQL makes', () => {
  test('does nothing with any table, view or partition of another stream, nor with the schema', async () => {
    const before = await contentOf(PARIS);
    expect((await relationsOf(PARIS)).length).toBeGreaterThan(10);
    expect(await allowed(BERLIN, PARIS)).toEqual([]);
    expect(await contentOf(PARIS)).toEqual(before);
  });

  test('of a stream sees of a hub the cursors of its own stream alone', async () => {
    expect(await allowed(BERLIN, HUB)).toEqual(['select cursor_of_stream']);
    const client = await clientOf(BERLIN);
    const { rows } = await client.query(`select stream, destination from ${HUB}.cursor_of_stream`);
    expect(rows).toEqual([{ stream: BERLIN, destination: 'lago' }]);
  });

  test('of a hub reads events and published records of a stream, and changes nothing', async () => {
    expect(hubRead).toMatchObject(['berlin', { lastSequence: 1 }, 'paris', { lastSequence: 1 }]);
    const before = await contentOf(BERLIN);
    expect(await allowed(HUB, BERLIN)).toEqual(SHOWN_TO_HUB.map((name) => `select ${name}`));
    const client = await clientOf(HUB);
    const { rows } = await client.query(`select key from ${BERLIN}.published_record`);
    expect(rows).toEqual([{ key: 'fleet/report' }]);
    expect(await contentOf(BERLIN)).toEqual(before);
  });

  test('of somebody else sees nothing of any of them', async () => {
    await used.server().query('create role stranger login', database.name);
    for (const schema of [BERLIN, HUB]) {
      const isShown = schema === HUB ? ['select cursor_of_stream'] : [];
      expect(await allowed('stranger', schema)).toEqual(isShown);
    }
    const client = await clientOf('stranger');
    const { rows } = await client.query(`select * from ${HUB}.cursor_of_stream`);
    expect(rows).toEqual([]);
  });
});

test('a role that may not make its schema is refused with the command that prints what to run', async () => {
  await used.server().query('create role meterfeed_rome login', database.name);
  const as = { ...database, user: 'meterfeed_rome' };
  expect(
    await openPostgresLedger(postgresOptions(as, { source: 'rome', region: 'rome' })),
  ).toMatchObject({
    kind: 'failed',
    cause: 'invalid',
    message: expect.stringMatching(/meterfeed_rome.*npm run ledger -- roles --stream/),
  });
});

test('a name that is no plain word breaks out of nothing', () => {
  const sql = rolesSql({ streams: ['x\n; drop schema public; --', "o'neil"], hub: false });
  const statements = sql.split('\n').filter((line) => line !== '' && !line.startsWith('--'));
  for (const line of statements)
    expect(line).toMatch(
      /^create (?:role|schema) meterfeed_[a-z0-9_]+ [a-z ]+(?:meterfeed_[a-z0-9_]+)?;$/,
    );
  expect(statements).toHaveLength(4);
});

test('nobody to print for is explained', () => {
  expect(tool()).toMatchObject({ status: 2, stderr: expect.stringContaining('usage:') });
});
