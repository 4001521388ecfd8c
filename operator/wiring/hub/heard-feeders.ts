import type { SharedFeeders } from '../../delivery/shared-feeders.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { override } from '../../model/override.ts';
import type { Summing } from '../../usage/summing.ts';

/** What its feeders read is told, so that it is not read once more to be summed. */
export function heardFeeders(replica: SharedFeeders, hear: Summing['hear']): SharedFeeders {
  const { leases, open } = replica;
  const heldBy: SharedFeeders['heldBy'] = async (lease) => {
    const given = await replica.heldBy(lease);
    if (given.kind === 'failed') return given;
    const read: Ledger['read'] = async (after, limit) => {
      const page = await given.ledger.read(after, limit);
      if (page.kind === 'page') hear(page.events, after);
      return page;
    };
    return { kind: 'held', ledger: override<Ledger>(given.ledger, { read }) };
  };
  return { leases, open, heldBy };
}
