import { afterAll, beforeAll } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { Ledger } from '../ledger.ts';
import {
  openPostgresLedger,
  type PostgresLedgerOptions,
} from '../postgres/open-postgres-ledger.ts';
import { postgresOptions } from './postgres-options.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

/** A server that a test file shares. */
export interface UsedPostgres {
  server(): PostgresServer;
}

export function usePostgres(): UsedPostgres {
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(async () => {
    await server?.stop();
  });
  return {
    server() {
      if (server === undefined) throw new Error('PostgreSQL is not started');
      return server;
    },
  };
}

/** Opens a ledger; throws if it cannot be opened. */
export async function openTestStream(
  database: LedgerDatabase,
  options: Partial<PostgresLedgerOptions> = {},
): Promise<Ledger> {
  const outcome = await openPostgresLedger(postgresOptions(database, options));
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.ledger;
}
