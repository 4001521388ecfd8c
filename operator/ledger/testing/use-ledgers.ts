import { afterEach } from 'vitest';
import type { Ledger } from '../ledger.ts';
import type { LevelLedgerOptions } from '../leveldb/open-level-ledger.ts';
import { openTestLedger } from './level-ledger.ts';
import { scratchDirectory } from './scratch.ts';

/** Directories and ledgers that a test file uses; closed and deleted after each test. */
export interface UsedLedgers {
  directory(): Promise<string>;
  open(directory: string, options?: Partial<LevelLedgerOptions>): Promise<Ledger>;
}

export function useLedgers(): UsedLedgers {
  const ledgers: Ledger[] = [];
  const removals: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const ledger of ledgers.splice(0)) await ledger.close();
    for (const remove of removals.splice(0)) await remove();
  });
  return {
    async directory() {
      const { path, remove } = await scratchDirectory();
      removals.push(remove);
      return path;
    },
    async open(directory, options) {
      const ledger = await openTestLedger(directory, options);
      ledgers.push(ledger);
      return ledger;
    },
  };
}
