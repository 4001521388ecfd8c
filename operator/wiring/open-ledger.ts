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
import type { Scrubber } from '../telemetry/scrubber.ts';

export interface LedgerSurroundings {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scrubber: Scrubber;
  readonly registry: Registry;
  /** Where other replicas reach this process. */
  readonly address: string;
}

/**
 * Opens the ledger that the environment names: a database where it gives a URL, DATA_DIR otherwise. Whoever opens a
 * database is one of several processes, also where it is the only one: nothing has to be set when another one comes.
 */
export async function openLedger(
  { ledger, identity }: Pick<Settings, 'ledger' | 'identity'>,
  { clock, logger, scrubber, registry, address }: LedgerSurroundings,
): Promise<OpenLedgerOutcome> {
  const { dataDir: directory, retentionMs, durability } = ledger;
  const common = { retentionMs, clock, logger, registry };
  const database = await databaseOf(ledger);
  if (database === undefined) return openLevelLedger({ directory, ...common });
  if ('kind' in database) return database;
  scrubber.learn(database);
  const { clusterName: source, region } = identity;
  const joining = { entry: 'join', address } as const;
  return openPostgresLedger({ database, durability, source, region, ...joining, ...common });
}

async function databaseOf({
  database,
  databaseFile,
}: Settings['ledger']): Promise<LedgerDatabase | LedgerFailure | undefined> {
  if (databaseFile === undefined) return database;
  try {
    const parsed = ledgerUrl().parse((await readFile(databaseFile, 'utf8')).trim());
    if (parsed.kind === 'value') return parsed.value;
    return ledgerFailure('invalid', problemText('LEDGER_URL_FILE', parsed, databaseFile));
  } catch (error) {
    return ledgerFailure('invalid', `LEDGER_URL_FILE: cannot be read: ${errorText(error)}`);
  }
}
