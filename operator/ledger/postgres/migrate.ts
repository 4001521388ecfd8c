import { ledgerFailure } from '../failures.ts';
import { LedgerReadError } from '../ledger.ts';
import { SQL as LEDGER } from './migrations/0001-ledger.ts';
import { SQL as COPIES } from './migrations/0002-copies.ts';
import { SQL as FINANCE } from './migrations/0003-finance.ts';
import { SQL as SHARED_PROPERTIES } from './migrations/0004-shared-properties.ts';
import { SQL as REPLICAS } from './migrations/0005-replicas.ts';
import { SQL as CUSTOMERS } from './migrations/0006-customers.ts';
import type { Row, Session } from './session.ts';
import { beginText, commit } from './transaction.ts';

/** In order; the version of a database is how many of them it has seen. They only go forward. */
const MIGRATIONS: readonly string[] = [
  LEDGER,
  COPIES,
  FINANCE,
  SHARED_PROPERTIES,
  REPLICAS,
  CUSTOMERS,
];

/** The version of the tables that this program writes. */
export const SCHEMA_VERSION: number = MIGRATIONS.length;

const OLDEST_SERVER = 150_000;
/** Taken by whoever changes tables or partitions. */
export const LOCK_TABLES = 'select pg_advisory_xact_lock(5640831402)';
const LOCK_TIMEOUT_MS = 60_000;

/**
 * Brings the tables up to what this program knows, one process at a time. Throws a LedgerReadError when
 * the server is too old or does not keep UTF-8, or when a newer program has been at the tables.
 */
export async function migrate(session: Session): Promise<void> {
  await session.run([{ text: `${beginText(LOCK_TIMEOUT_MS)}; ${LOCK_TABLES}` }]);
  const [server] = await session.run([
    {
      text: `select current_setting('server_version_num') as version,
        current_setting('server_encoding') as encoding`,
      values: [],
    },
  ]);
  refuseServer(server?.rows[0]);
  await session.run([
    {
      text: `create schema if not exists meterfeed;
        create table if not exists meterfeed.version (version integer primary key, at timestamptz not null default now())`,
    },
  ]);
  const [found] = await session.run([
    { text: 'select coalesce(max(version), 0) as version from meterfeed.version', values: [] },
  ]);
  const known = Number(found?.rows[0]?.['version'] ?? 0);
  if (known > MIGRATIONS.length) {
    throw refusal(
      `its tables are of version ${known}, and this program knows ${MIGRATIONS.length}: run the newer program`,
    );
  }
  for (const [index, text] of MIGRATIONS.entries()) {
    if (index < known) continue;
    await session.run([
      { text },
      { text: 'insert into meterfeed.version (version) values ($1)', values: [index + 1] },
    ]);
  }
  await commit(session);
}

function refuseServer(row: Row | undefined): void {
  const { version, encoding } = { version: row?.['version'], encoding: row?.['encoding'] };
  if (Number(version) < OLDEST_SERVER) {
    throw refusal(`PostgreSQL 15 or newer is needed, and the server is: "${version}"`);
  }
  if (encoding !== 'UTF8') {
    throw refusal(`the database must be made with encoding UTF8, and has: "${encoding}"`);
  }
}

function refusal(what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `ledger: database: ${what}`));
}
