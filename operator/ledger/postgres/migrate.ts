import { ledgerFailure } from '../failures.ts';
import { LedgerReadError } from '../ledger.ts';
import { sqlState } from './failures.ts';
import type { RunQuery } from './readers.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { DatabaseRow, Session } from './session.ts';
import { grantsToHub, STREAM_STEPS } from './tables.ts';
import { beginText, commit } from './transaction.ts';

const OLDEST_SERVER = 150_000;
const LOCK_TIMEOUT_MS = 60_000;
const NO_PRIVILEGE = '42501';

/**
 * Migrates the schema of a stream to this program's version, one process at a time. Throws a
 * LedgerReadError if:
 * - the server is too old or does not store UTF-8;
 * - a newer program has changed the schema;
 * - the role may not create it.
 */
export async function migrateStream(session: Session, schema: string): Promise<void> {
  const command = `npm run ledger -- roles --stream CLUSTER_NAME`;
  await migrate(session, schema, STREAM_STEPS, command);
}

/** Grants the hub's role, if there is one, read access to a stream's published data. */
export async function grantToHub(query: RunQuery, schema: string): Promise<void> {
  const [found] = await query({
    text: `select has_table_privilege(oid, $2, 'select') as granted from pg_roles where rolname = $1`,
    values: [HUB_SCHEMA, `${schema}.rollup`],
  });
  if (found?.['granted'] !== 'f') return;
  for (const text of grantsToHub(schema, HUB_SCHEMA)) await query({ text });
}

/**
 * Runs the missing migration steps of a schema. `command` prints the SQL for an administrator, for
 * a role that may not create the schema.
 */
export async function migrate(
  session: Session,
  schema: string,
  steps: readonly ((schema: string) => string)[],
  command: string,
): Promise<void> {
  const [, , server, present] = await session.run([
    { text: beginText(LOCK_TIMEOUT_MS) },
    { text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))', values: [schema] },
    {
      text: `select current_setting('server_version_num') as version,
        current_setting('server_encoding') as encoding`,
      values: [],
    },
    { text: 'select to_regnamespace($1) is not null as present', values: [schema] },
  ]);
  refuseServer(server?.rows[0]);
  if (present?.rows[0]?.['present'] !== 't') {
    await session.run([{ text: `create schema ${schema}` }]).catch((error: unknown) => {
      if (sqlState(error) !== NO_PRIVILEGE) throw error;
      throw refusal(
        `the role may not create the schema ${schema}; an administrator must run the SQL that this command prints: "${command}"`,
      );
    });
  }
  await session.run([
    {
      text: `create table if not exists ${schema}.version
        (version integer primary key, at timestamptz not null default now())`,
    },
  ]);
  const [found] = await session.run([
    { text: `select coalesce(max(version), 0) as version from ${schema}.version`, values: [] },
  ]);
  const known = Number(found?.rows[0]?.['version'] ?? 0);
  if (known > steps.length) {
    throw refusal(
      `its tables are of version ${known}, and this program knows ${steps.length}: run the newer program`,
    );
  }
  for (const [index, step] of steps.entries()) {
    if (index < known) continue;
    await session.run([
      { text: step(schema) },
      { text: `insert into ${schema}.version (version) values ($1)`, values: [index + 1] },
    ]);
  }
  await commit(session);
}

function refuseServer(row: DatabaseRow | undefined): void {
  const { version, encoding } = { version: row?.['version'], encoding: row?.['encoding'] };
  if (Number(version) < OLDEST_SERVER) {
    throw refusal(`PostgreSQL 15 or newer is needed, and the server is: "${version}"`);
  }
  if (encoding !== 'UTF8') {
    throw refusal(`the database must have the encoding UTF8, and has: "${encoding}"`);
  }
}

function refusal(what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `ledger: database: ${what}`));
}
