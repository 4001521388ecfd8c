import { systemClock } from '../../telemetry/system-clock.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { MeterLedger } from '../meter-ledger.ts';
import { createSpoolDirectory } from '../spool/spool-directory.ts';
import { createSpooledLedger, type SpooledLedger } from '../spool/spooled-ledger.ts';
import { silentLogger } from './level-ledger.ts';

export interface TestSpoolOptions {
  readonly ledger: MeterLedger;
  readonly dataDir: string;
  readonly limitBytes?: number;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

/** A meter's way into a ledger that may be away; throws when what is left behind cannot be taken up. */
export async function beginSpooled(options: TestSpoolOptions): Promise<SpooledLedger> {
  const { ledger, dataDir, limitBytes = 2 ** 30 } = options;
  const { clock = systemClock, logger = silentLogger } = options;
  const directory = createSpoolDirectory({ parent: dataDir, clock, logger });
  const spooled = createSpooledLedger({ ledger, directory, limitBytes, clock, logger });
  const begun = await spooled.begin();
  if (begun.kind === 'failed') throw new Error(begun.message);
  return spooled;
}

/** Lets everything that waits follow. */
export async function drain(spooled: SpooledLedger): Promise<void> {
  const enough = new AbortController();
  const draining = spooled.run(enough.signal);
  while (spooled.waiting().bytes > 0) await Promise.race([draining, systemClock.sleep(1)]);
  enough.abort();
  await draining;
}
