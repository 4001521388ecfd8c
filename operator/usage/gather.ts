import type { Ledger } from '../ledger/ledger.ts';
import { periodOf } from '../model/periods.ts';
import { EventPlaces } from './event-places.ts';
import { newerThan } from './newer-than.ts';
import { SumRows } from './sum-rows.ts';
import type { HourOfTenant, SumChanges } from './sums-store.ts';

/** Sums, and ranges of places, held in memory before they are stored. */
const MAX_CHANGED_SUMS = 20_000;
const MAX_CHANGED_RANGES = 200_000;

/** What comes after a sequence number, and how far that is: as much as is stored at a time. */
export async function gather(
  ledger: Ledger,
  after: number,
  signal: AbortSignal,
): Promise<{ readonly changes: SumChanges; readonly progress: number }> {
  const changes = new Map<string, Map<string, HourOfTenant>>();
  let progress = after;
  let [sums, ranges] = [0, 0];
  for await (const { sequence, event } of newerThan(ledger, after, signal)) {
    const hour = periodOf('hour', event.window_start);
    const tenants = changes.get(hour) ?? new Map<string, HourOfTenant>();
    changes.set(hour, tenants);
    const known = tenants.get(event.tenant);
    const { rows, places } = known ?? { rows: new SumRows(), places: new EventPlaces() };
    if (known === undefined) tenants.set(event.tenant, { rows, places });
    sums -= rows.size;
    ranges -= places.size;
    rows.addEvent(event);
    places.add(sequence);
    sums += rows.size;
    ranges += places.size;
    progress = sequence;
    if (sums >= MAX_CHANGED_SUMS || ranges >= MAX_CHANGED_RANGES) break;
  }
  return { changes, progress };
}
