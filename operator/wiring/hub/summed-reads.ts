import type { Ledger } from '../../ledger/ledger.ts';
import { override } from '../../model/override.ts';
import type { Summing } from '../../usage/summing.ts';

/** The ledger for feeders: the pages that they read are summed, instead of being read once more. */
export function withSummedReads(ledger: Ledger, sum: Summing['hear']): Ledger {
  const read: Ledger['read'] = async (after, limit) => {
    const page = await ledger.read(after, limit);
    if (page.kind === 'page') sum(page.events, after);
    return page;
  };
  return override<Ledger>(ledger, { read });
}
