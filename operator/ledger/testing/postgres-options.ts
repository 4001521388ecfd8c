import type { LedgerDatabase } from '../../settings/settings.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { PostgresLedgerOptions } from '../postgres/open-postgres-ledger.ts';
import { silentLogger } from './level-ledger.ts';

const WEEK_MS = 7 * 86_400_000;

/** Options with defaults for tests. */
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
