import { afterAll, beforeAll } from 'vitest';
import type { LedgerDatabase } from '../../config/settings.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Ledger } from '../ledger.ts';
import {
  openPostgresLedger,
  type PostgresLedgerOptions,
} from '../postgres/open-postgres-ledger.ts';
import { silentLogger } from './level-ledger.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

const WEEK_MS = 7 * 86_400_000;

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

/** Options with what a test does not care about filled in. */
export function postgresOptions(
  database: LedgerDatabase,
  options: Partial<PostgresLedgerOptions> = {},
): PostgresLedgerOptions {
  return {
    database,
    durability: 'storage',
    source: 'cluster-a',
    region: 'region-a',
    retentionMs: WEEK_MS,
    clock: systemClock,
    logger: silentLogger,
    ...options,
  };
}

/** Opens a ledger; throws when it cannot be opened. */
export async function openTestStream(
  database: LedgerDatabase,
  options: Partial<PostgresLedgerOptions> = {},
): Promise<Ledger> {
  const outcome = await openPostgresLedger(postgresOptions(database, options));
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.ledger;
}
