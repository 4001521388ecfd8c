import { afterEach, describe } from 'vitest';
import { cursorPromises, waitingPromises } from './conformance/cursors.ts';
import { deduplicationPromises } from './conformance/deduplication.ts';
import { readingPromises, upkeepPromises } from './conformance/events.ts';
import { recordPromises } from './conformance/records.ts';
import type { Ledger } from '../ledger.ts';

/**
 * A vitest suite for every implementation of {@link Ledger}. `open` returns an empty ledger, which
 * the suite closes.
 */
export function ledgerConformance(name: string, open: () => Promise<Ledger>): void {
  describe(`${name} keeps the promises of a ledger`, () => {
    const opened: Ledger[] = [];
    const openEmpty = async (): Promise<Ledger> => {
      const ledger = await open();
      opened.push(ledger);
      return ledger;
    };
    afterEach(async () => {
      for (const ledger of opened.splice(0)) await ledger.close();
    });
    readingPromises(openEmpty);
    deduplicationPromises(openEmpty);
    upkeepPromises(openEmpty);
    waitingPromises(openEmpty);
    cursorPromises(openEmpty);
    recordPromises(openEmpty);
  });
}
