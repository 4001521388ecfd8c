import { Gauge, type Registry } from 'prom-client';
import type { SpoolDirectory } from './spool-directory.ts';
import type { SpooledLedger } from './spooled-ledger.ts';

/** Metrics of the spool; all 0 where there is none, so that alerts find them. */
export function createSpoolMetrics(
  registry: Registry,
  ledger: Pick<SpooledLedger, 'waiting'> | undefined,
  directory: Pick<SpoolDirectory, 'aside'> | undefined,
): void {
  const gauge = (name: string, help: string, read: () => number | Promise<number>): void => {
    const metric: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: async () => metric.set(await read()),
    });
  };
  gauge(
    'meterfeed_spool_batches',
    'Batches of windows and their records that wait for the database.',
    () => ledger?.waiting().batches ?? 0,
  );
  gauge(
    'meterfeed_spool_bytes',
    'Bytes of what has come into the spool since it was empty.',
    () => ledger?.waiting().bytes ?? 0,
  );
  gauge(
    'meterfeed_spool_limit_bytes',
    'LEDGER_SPOOL_SIZE; 0 where there is no spool.',
    () => ledger?.waiting().limitBytes ?? 0,
  );
  gauge(
    'meterfeed_spools_aside',
    'Spools that were put aside, since the database was not as they left it.',
    () => directory?.aside() ?? 0,
  );
}
