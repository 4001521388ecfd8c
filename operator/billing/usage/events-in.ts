import type { Ledger, StoredEvent } from '../../ledger/ledger.ts';
import { type EventsQuery, scanFor } from './tenant-events.ts';
import type { UsageTotals } from './usage-totals.ts';

/**
 * The events of a query in ledger order, found by the usage sums if they are open. Throws a
 * LedgerReadError when the ledger is damaged.
 */
export function eventsIn(
  ledger: Ledger,
  totals: UsageTotals | undefined,
  query: EventsQuery,
): AsyncIterable<StoredEvent> {
  return totals?.events(query) ?? scanFor(ledger, query);
}
