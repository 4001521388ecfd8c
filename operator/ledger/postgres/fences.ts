import type { LedgerFailure } from '../ledger.ts';
import type { Lease } from '../leases.ts';
import { LOCK_HUB_LEASE } from './hub-lease.ts';
import { LEASE_LOST, TAKEN_OVER } from './refusals.ts';
import type { Row, Statement } from './session.ts';

/**
 * Whose write a request is: `meter` is who has the epoch of the stream, a lease is held by one process at a time, and
 * anybody may push usage. What no longer holds under the lock is refused (docs/ledger-format.md#several-replicas).
 */
export type Fence = 'meter' | 'anybody' | Lease;

/** The name in the fence of a hub, whose epoch is that of its row. */
export const HUB = 'hub';

/** Something with the right by which it is written; that of the meter unless it says another. */
export interface Fenced {
  readonly fence?: Fence;
}

/**
 * Locks the leases that requests are written by, as far as this process holds them: whoever claims one waits for the
 * end of the transaction. Always before the row of the stream and in one order, so that nothing waits in a circle.
 */
export function lockLeases(
  stream: number,
  owner: string,
  requests: readonly Fenced[],
): readonly Statement[] {
  const names = requests.flatMap(({ fence }) => (typeof fence === 'object' ? [fence.name] : []));
  if (names.length === 0) return [];
  // A process is a hub or an operator: no batch has both.
  if (names.includes(HUB)) return [{ text: LOCK_HUB_LEASE, values: [] }];
  return [
    {
      text: `select name, epoch from meterfeed.lease
        where stream = $1 and owner = $2 and name = any($3::text[]) order by name for share`,
      values: [stream, owner, [...new Set(names)]],
    },
  ];
}

/** Why a request may not be written, given whether this process is the meter and the rows of {@link lockLeases}. */
export function refusalBy(
  isMeter: boolean,
  leases: readonly Row[],
): (request: Fenced) => LedgerFailure | undefined {
  const held = new Map(leases.map((row) => [row['name'] ?? HUB, Number(row['epoch'])]));
  return ({ fence = 'meter' }) => {
    if (fence === 'anybody') return undefined;
    if (fence === 'meter') return isMeter ? undefined : TAKEN_OVER;
    return held.get(fence.name) === fence.epoch ? undefined : LEASE_LOST;
  };
}
