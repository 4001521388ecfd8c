import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import { ledgerUrls } from '../settings/parsers/ledger-url.ts';
import { problemText } from '../settings/parsers/parser.ts';
import type { LedgerDatabase, Settings } from '../settings/settings.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import type { LedgerFailure, OpenLedgerOutcome } from '../ledger/ledger.ts';
import { LevelRollups } from '../ledger/leveldb/level-rollups.ts';
import { openLevelLedger, SUMS } from '../ledger/leveldb/open-level-ledger.ts';
import { openPostgresLedger } from '../ledger/postgres/open-postgres-ledger.ts';
import { errorText } from '../model/error-text.ts';
import { quote } from '../model/quote.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { SumsStore } from '../billing/usage/sums-store.ts';

/**
 * Opens the ledger in the database, or in DATA_DIR without one. With a database this process leads
 * the stream from then on: it migrates the tables, and the former leader's writes are refused.
 */
export async function openLedger(
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
  const outcome = await openPostgresLedger({ database, durability, source, region, ...common });
  if (outcome.kind === 'opened') await adoptSums(join(directory, SUMS), outcome, logger);
  return outcome;
}

/**
 * Copies the sums in DATA_DIR to the database. An earlier release or a ledger there may have left
 * sums of events that are deleted. If it fails, only those sums are lost: all others are rebuilt
 * from the ledger.
 */
async function adoptSums(
  directory: string,
  { ledger, rollups }: Extract<OpenLedgerOutcome, { readonly kind: 'opened' }>,
  logger: Logger,
): Promise<void> {
  const isThere = await stat(directory).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isThere) return;
  const old = new LevelRollups(directory);
  try {
    const isTaken = await new SumsStore(rollups, ledger.stats().ledgerId).adopt(old);
    if (isTaken) logger.info(`[ledger] the sums of ${directory} are in the database`);
  } catch (error) {
    logger.warn(`[ledger] the sums of ${directory} cannot be taken over`, { error });
  } finally {
    await old.close();
  }
}

/**
 * The databases of LEDGER_URL or LEDGER_URL_FILE; empty for a ledger in DATA_DIR. Several are valid
 * for a hub only.
 */
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
