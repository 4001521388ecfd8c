import type { Registry } from 'prom-client';
import type { Settings } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
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

/** The meter's way into its ledger, and the spool on it where there is one: to be begun once this process is the meter. */
export interface MeterLedgers {
  readonly ledger: MeterLedger;
  readonly spool?: SpooledLedger;
}

/** By which the meter writes: through a spool where the ledger is a database. */
export function createMeterLedger(options: MeterLedgerOptions): MeterLedgers {
  const { environment, ledger, clock, logger, registry } = options;
  const { dataDir, database, databaseFile, spoolBytes } = environment.ledger;
  if (database === undefined && databaseFile === undefined) {
    createSpoolMetrics(registry, undefined, undefined);
    return { ledger };
  }
  const directory = createSpoolDirectory({ parent: dataDir, clock, logger });
  const spool = createSpooledLedger({ ledger, directory, limitBytes: spoolBytes, clock, logger });
  createSpoolMetrics(registry, spool, directory);
  return { ledger: spool, spool };
}
