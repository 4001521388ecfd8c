import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import {
  openPostgresLedger,
  type PostgresLedgerOptions,
} from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import { systemClock } from '../../../operator/telemetry/system-clock.ts';

/** Opens a stream that acknowledges what a synchronous standby has. */
export async function openStream(
  database: LedgerDatabase,
  name: string,
  options: Partial<PostgresLedgerOptions> = {},
): Promise<Ledger> {
  const outcome = await openPostgresLedger({
    database,
    durability: 'standby',
    source: name,
    region: name,
    retentionMs: Number.MAX_SAFE_INTEGER,
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.ledger;
}
