import type { Logger } from '../../telemetry/logger.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Ledger } from '../ledger.ts';
import { type LevelLedgerOptions, openLevelLedger } from '../leveldb/open-level-ledger.ts';

export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Small files, so that tests are quick. */
const TEST_RESERVE_BYTES = 64 * 1024;
const WEEK_MS = 7 * 86_400_000;

/** Options with defaults for tests. */
export function testOptions(
  directory: string,
  options: Partial<LevelLedgerOptions> = {},
): LevelLedgerOptions {
  return {
    directory,
    retentionMs: WEEK_MS,
    clock: systemClock,
    logger: silentLogger,
    reserveBytes: TEST_RESERVE_BYTES,
    freeBytes: async () => 1024 ** 3,
    ...options,
  };
}

/** Opens a ledger; throws if it cannot be opened. */
export async function openTestLedger(
  directory: string,
  options: Partial<LevelLedgerOptions> = {},
): Promise<Ledger> {
  const outcome = await openLevelLedger(testOptions(directory, options));
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.ledger;
}
