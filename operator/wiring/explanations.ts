import { join } from 'node:path';
import { createExplanations, type Explanations } from '../explanations/explanations.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface ExplanationsPartOptions {
  readonly dataDir: string;
  readonly ledger: Pick<Ledger, 'stats'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const MOST_BYTES = 3 * 2 ** 30;
const SHARE_OF_VOLUME = 0.1;

/** Explanations beside the ledger: never more than a tenth of its room, and none once that is short. */
export async function openExplanations(options: ExplanationsPartOptions): Promise<Explanations> {
  const { dataDir, ledger, clock, logger } = options;
  const explanations = createExplanations({
    directory: join(dataDir, 'explanations'),
    room: () => {
      const { disk, roomBytes = Infinity } = ledger.stats();
      return disk.level === 'normal' ? Math.min(MOST_BYTES, roomBytes * SHARE_OF_VOLUME) : 0;
    },
    now: () => clock.now(),
    logger,
  });
  await explanations.open();
  return explanations;
}
