import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import { ledgerUrl } from '../config/parsers/ledger-url.ts';
import { problemText } from '../config/parsers/parser.ts';
import type { LedgerDatabase, Settings } from '../config/settings.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import type { LedgerFailure, OpenLedgerOutcome } from '../ledger/ledger.ts';
import { openLevelLedger } from '../ledger/leveldb/open-level-ledger.ts';
import { openPostgresLedger } from '../ledger/postgres/open-postgres-ledger.ts';
import { errorText } from '../model/error-text.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface LedgerSurroundings {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

/**
 * Opens the ledger in a database, or in DATA_DIR where there is none. With a database this process leads the stream from
 * then on: it migrates the tables, and whichever process led before is refused.
 */
export function openLedger(
  { ledger, identity }: Pick<Settings, 'ledger' | 'identity'>,
  database: LedgerDatabase | undefined,
  { clock, logger, registry }: LedgerSurroundings,
): Promise<OpenLedgerOutcome> {
  const { dataDir: directory, retentionMs, durability } = ledger;
  const common = { retentionMs, clock, logger, registry };
  if (database === undefined) return openLevelLedger({ directory, ...common });
  const { clusterName: source, region } = identity;
  return openPostgresLedger({ database, durability, source, region, ...common });
}

/** The database that LEDGER_URL or LEDGER_URL_FILE names; `database` is undefined where the ledger is in DATA_DIR. */
export async function ledgerDatabase({
  database,
  databaseFile,
}: Settings['ledger']): Promise<
  { readonly kind: 'found'; readonly database: LedgerDatabase | undefined } | LedgerFailure
> {
  if (databaseFile === undefined) return { kind: 'found', database };
  try {
    const parsed = ledgerUrl().parse((await readFile(databaseFile, 'utf8')).trim());
    if (parsed.kind === 'value') return { kind: 'found', database: parsed.value };
    return ledgerFailure('invalid', problemText('LEDGER_URL_FILE', parsed, databaseFile));
  } catch (error) {
    return ledgerFailure('invalid', `LEDGER_URL_FILE: cannot be read: ${errorText(error)}`);
  }
}
