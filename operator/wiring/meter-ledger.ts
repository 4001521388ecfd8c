import type { Registry } from 'prom-client';
import type { Settings } from '../config/settings.ts';
import type { Ledger, LedgerFailure } from '../ledger/ledger.ts';
import type { MeterLedger } from '../ledger/meter-ledger.ts';
import { createSpoolDirectory } from '../ledger/spool/spool-directory.ts';
import { createSpoolMetrics } from '../ledger/spool/spool-metrics.ts';
import { createSpooledLedger, type SpooledLedger } from '../ledger/spool/spooled-ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface MeterLedgerOptions {
  readonly environment: Pick<Settings, 'ledger'>;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

export type MeterLedgerOutcome =
  | { readonly kind: 'begun'; readonly ledger: MeterLedger; readonly spool?: SpooledLedger }
  | LedgerFailure;

/** By which the meter writes: through a spool where the ledger is a database. This process must be the meter. */
export async function beginMeterLedger(options: MeterLedgerOptions): Promise<MeterLedgerOutcome> {
  const { environment, ledger, clock, logger, registry } = options;
  const { dataDir, database, databaseFile, spoolBytes } = environment.ledger;
  if (database === undefined && databaseFile === undefined) {
    createSpoolMetrics(registry, undefined, undefined);
    return { kind: 'begun', ledger };
  }
  const directory = createSpoolDirectory({ parent: dataDir, clock, logger });
  const spooled = createSpooledLedger({
    ledger,
    directory,
    limitBytes: spoolBytes,
    clock,
    logger,
  });
  createSpoolMetrics(registry, spooled, directory);
  const begun = await spooled.begin();
  return begun.kind === 'failed' ? begun : { kind: 'begun', ledger: spooled, spool: spooled };
}
