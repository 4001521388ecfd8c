import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import { ledgerUrls } from '../config/parsers/ledger-url.ts';
import { problemText } from '../config/parsers/parser.ts';
import type { LedgerDatabase, Settings } from '../config/settings.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import type { LedgerFailure, OpenLedgerOutcome } from '../ledger/ledger.ts';
import { openLevelLedger } from '../ledger/leveldb/open-level-ledger.ts';
import { openPostgresLedger } from '../ledger/postgres/open-postgres-ledger.ts';
import { errorText } from '../model/error-text.ts';
import { quote } from '../model/quote.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/**
 * Opens the ledger in a database, or in DATA_DIR where there is none. With a database this process leads the stream from
 * then on: it migrates the tables, and whichever process led before is refused.
 */
export function openLedger(
  { ledger, identity }: Pick<Settings, 'ledger' | 'identity'>,
  database: LedgerDatabase | undefined,
  {
    clock,
    logger,
    registry,
  }: { readonly clock: Clock; readonly logger: Logger; readonly registry: Registry },
): Promise<OpenLedgerOutcome> {
  const { dataDir: directory, retentionMs, durability } = ledger;
  const common = { retentionMs, clock, logger, registry };
  if (database === undefined) return openLevelLedger({ directory, ...common });
  const { clusterName: source, region } = identity;
  return openPostgresLedger({ database, durability, source, region, ...common });
}

/** The databases that LEDGER_URL or LEDGER_URL_FILE names: one, of a hub also several; none where the ledger is in DATA_DIR. */
export async function ledgerDatabases({
  ledger,
  role,
}: Pick<Settings, 'ledger' | 'role'>): Promise<
  { readonly kind: 'found'; readonly databases: readonly LedgerDatabase[] } | LedgerFailure
> {
  const { database, furtherDatabases = [], databaseFile } = ledger;
  if (databaseFile === undefined) {
    return {
      kind: 'found',
      databases: database === undefined ? [] : [database, ...furtherDatabases],
    };
  }
  try {
    const parsed = ledgerUrls().parse(await readFile(databaseFile, 'utf8'));
    if (parsed.kind === 'problem') {
      return ledgerFailure('invalid', problemText('LEDGER_URL_FILE', parsed, databaseFile));
    }
    const databases = parsed.value;
    if (databases.length === 1 || role === 'hub') return { kind: 'found', databases };
    const fix = 'name one, or set ROLE=hub';
    const message = `LEDGER_URL_FILE: several databases: ${quote(databaseFile)}: ${fix}`;
    return ledgerFailure('invalid', message);
  } catch (error) {
    return ledgerFailure('invalid', `LEDGER_URL_FILE: cannot be read: ${errorText(error)}`);
  }
}
