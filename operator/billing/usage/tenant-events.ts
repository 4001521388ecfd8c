import { type Ledger, LedgerReadError, type StoredEvent } from '../../ledger/ledger.ts';
import { mergeRanges, type SequenceRange } from './event-places.ts';
import { newerThan } from './newer-than.ts';
import type { TimeRange } from '../../model/window.ts';

/** Events whose window starts in a range. */
export interface EventsQuery {
  readonly range: TimeRange;
  /** Only events of this tenant; undefined for all tenants. */
  readonly tenant?: string;
  readonly signal: AbortSignal;
}

/**
 * Where a tenant's events of a time are, up to the sequence number `after`. Later events must be
 * searched.
 */
export interface KnownPlaces {
  readonly ranges: readonly SequenceRange[];
  readonly after: number;
}

/** Ranges read at the same time, so that one is read while another is decoded. */
const READS_AT_ONCE = 4;
const READ_EVENTS = 512;

/**
 * The events of a query in ledger order, filtered from those of all tenants. Throws a
 * LedgerReadError when the ledger is damaged.
 */
export async function* scanFor(
  ledger: Ledger,
  { range, tenant, signal }: EventsQuery,
): AsyncGenerator<StoredEvent> {
  for await (const stored of ledger.scan(range.from, range.to, signal)) {
    if (tenant === undefined || stored.event.tenant === tenant) yield stored;
  }
}

/** As {@link scanFor}, but reads only the known places and newer events. */
export async function* tenantEvents(
  ledger: Ledger,
  { ranges, after }: KnownPlaces,
  { range: { from, to }, tenant, signal }: EventsQuery,
): AsyncGenerator<StoredEvent> {
  const isWanted = ({ event }: StoredEvent): boolean => {
    if (event.tenant !== tenant) return false;
    const start = Date.parse(event.window_start);
    return start >= from && start < to;
  };
  const reads = mergeRanges(ranges, READ_EVENTS);
  for (let next = 0; next < reads.length; next += READS_AT_ONCE) {
    signal.throwIfAborted();
    const some = reads.slice(next, next + READS_AT_ONCE);
    const found = await Promise.all(some.map((range) => readRange(ledger, range)));
    yield* found.flat().filter(isWanted);
  }
  for await (const stored of newerThan(ledger, after, signal)) if (isWanted(stored)) yield stored;
}

/** The events of a range that are still stored. */
async function readRange(
  ledger: Ledger,
  { first, last }: SequenceRange,
): Promise<readonly StoredEvent[]> {
  const found: StoredEvent[] = [];
  for (let position = Math.max(first - 1, ledger.lowWater()); position < last; ) {
    const page = await ledger.read(position, last - position);
    if (page.kind === 'failed') throw new LedgerReadError(page);
    if (page.events.length === 0) break;
    // After deleted events the page may reach beyond the range.
    found.push(...page.events.filter(({ sequence }) => sequence <= last));
    position = page.lastSequence;
  }
  return found;
}
