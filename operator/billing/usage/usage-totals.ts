import { type Ledger, LedgerReadError, type StoredEvent } from '../../ledger/ledger.ts';
import { DamagedRollups } from '../../ledger/rollups.ts';
import type { Clock } from '../../telemetry/clock.ts';
import {
  coverRange,
  hoursOf,
  type PeriodKind,
  periodOf,
  periodStart,
  type RangeCover,
} from '../../model/periods.ts';
import { LateUsage } from './late-usage.ts';
import { newerThan } from './newer-than.ts';
import { decodeSums } from './sum-rows.ts';
import { STORED_MS, type StoredSums, type SumsStore } from './sums-store.ts';
import { type EventsQuery, type KnownPlaces, scanFor, tenantEvents } from './tenant-events.ts';
import type { EventFilter, Summands } from './usage-sums.ts';
import type { TimeRange } from '../../model/window.ts';

export interface TotalsQuery {
  readonly range: TimeRange;
  readonly filter: EventFilter;
  /** The only tenant that the filter accepts, if there is one. */
  readonly tenant?: string;
  /** True if the hour of the day matters. */
  readonly hourly: boolean;
  /**
   * Leaves out events that are not summed yet if they are too many to read for an answer. The
   * outcome then has `summedUpTo`.
   */
  readonly mayLag?: boolean;
  readonly signal: AbortSignal;
}

/**
 * Most events that are read for an answer because they are not summed yet. Reading them takes a few
 * seconds.
 */
const MOST_READ = 200_000;

/** Sums of usage over any range, without reading the whole ledger. */
export interface UsageTotals {
  /** Adds all usage of the range to `sums`. Throws a LedgerReadError when the ledger is damaged. */
  addTo(sums: Summands, query: TotalsQuery): Promise<TotalsOutcome>;
  /**
   * The events of a query in ledger order, mostly without reading those of other tenants. Throws a
   * LedgerReadError when the ledger is damaged.
   */
  events(query: EventsQuery): AsyncIterable<StoredEvent>;
  /** What a month bills of earlier, closed months, and what later months bill of it. */
  late(month: string, query: Pick<TotalsQuery, 'tenant' | 'signal'>): Promise<LateUsage>;
  /**
   * When the first retained window began, milliseconds since the epoch; undefined without one. If
   * the sums know only its hour or day, the beginning of that.
   */
  since(): Promise<number | undefined>;
}

export type TotalsOutcome =
  /**
   * 1. `partial`: some of the range is older than the retained sums or events.
   * 2. `head`: the full hours of the range contain every event up to this sequence number and none
   *    after it. Absent without stored sums.
   * 3. `summedUpTo`: the start of the first window of the range that may be missing, milliseconds
   *    since the epoch. The sums have not reached it.
   */
  | {
      readonly kind: 'added';
      readonly partial: boolean;
      readonly head?: number;
      readonly summedUpTo?: number;
    }
  /** `sums` has reached its most rows. */
  | { readonly kind: 'full' }
  /** Stored sums were damaged and are being rebuilt from the ledger. */
  | { readonly kind: 'rebuilding' };

/** Totals of one ledger: its stored sums, plus the newer events of the ledger. */
export class LedgerTotals implements UsageTotals {
  readonly #options;

  constructor(options: {
    readonly ledger: Ledger;
    readonly store: SumsStore;
    readonly clock: Pick<Clock, 'now'>;
    /** Has damaged sums rebuilt. Does nothing in a process that does not write them. */
    readonly rebuild: (reason: string) => Promise<void>;
  }) {
    this.#options = options;
  }

  async addTo(sums: Summands, query: TotalsQuery): Promise<TotalsOutcome> {
    const { ledger, store, clock, rebuild } = this.#options;
    const cover = coverRange(query.range.from, query.range.to, query.hourly);
    try {
      const stored = await store.reading((found) => this.#addStored(found, sums, query, cover));
      const added = stored && (await this.#addOthers(stored, sums, query, cover));
      if (added === undefined) return { kind: 'full' };
      return { kind: 'added', partial: isPartlyGone(cover, ledger, clock.now()), ...added };
    } catch (error) {
      if (!(error instanceof DamagedRollups)) throw error;
      await rebuild(error.message);
      return { kind: 'rebuilding' };
    }
  }

  async *events(query: EventsQuery): AsyncGenerator<StoredEvent> {
    const { store, rebuild } = this.#options;
    // A failed read of the sums must not delay what the ledger can answer.
    const known = await store
      .reading((found) => this.#placesOf(found, query))
      .catch(async (error: unknown): Promise<undefined> => {
        if (!(error instanceof DamagedRollups)) throw error;
        await rebuild(error.message);
      });
    yield* this.#eventsAt(known, query);
  }

  async late(
    month: string,
    { tenant, signal }: Pick<TotalsQuery, 'tenant' | 'signal'>,
  ): Promise<LateUsage> {
    const { ledger, store } = this.#options;
    const late = new LateUsage(month, tenant);
    const [open, summedTo] = await store.reading(
      async (found) => [await late.addStored(found), this.#summedTo(found)] as const,
    );
    // Queries leave out events that are too many to read.
    if (open === undefined || ledger.head() - summedTo > MOST_READ) return late;
    for await (const { event } of newerThan(ledger, summedTo, signal)) {
      if (event.window_start < open) late.add(open, { item: event, events: 1 });
    }
    return late;
  }

  async since(): Promise<number | undefined> {
    const [summedTo, first] = await this.#options.store.reading(async (found) => {
      return [this.#summedTo(found), await firstOf(found)] as const;
    });
    return first ?? this.#firstAfter(summedTo);
  }

  /**
   * The number after which no event is summed. Events that were deleted before they were summed are
   * lost to the sums.
   */
  #summedTo({ progress }: StoredSums): number {
    return Math.max(progress, this.#options.ledger.lowWater());
  }

  async #firstAfter(sequence: number): Promise<number | undefined> {
    const page = await this.#options.ledger.read(sequence, 1);
    if (page.kind === 'failed') throw new LedgerReadError(page);
    const [first] = page.events;
    return first === undefined ? undefined : Date.parse(first.event.window_start);
  }

  /**
   * Adds the stored sums of full periods. Returns what must be read from the ledger; undefined when
   * `sums` is full.
   */
  async #addStored(
    found: StoredSums,
    sums: Summands,
    { filter, tenant, signal }: TotalsQuery,
    { days, hours, edges }: RangeCover,
  ): Promise<Unread | undefined> {
    const periods = [
      ...days.map((period) => ['day', period] as const),
      ...hours.map((period) => ['hour', period] as const),
    ];
    for (const [kind, period] of periods) {
      signal.throwIfAborted();
      for await (const [owner, text] of found.read(kind, period, tenant)) {
        for (const { item, events } of decodeSums(owner, period, text)) {
          if (filter(item) && !sums.add(item, events)) return undefined;
        }
      }
    }
    const unread: UnreadEdge[] = [];
    for (const range of edges) {
      const query = { range, tenant, signal };
      unread.push({ query, known: await this.#placesOf(found, query) });
    }
    return { summedTo: this.#summedTo(found), edges: unread };
  }

  /**
   * Adds the events that the stored sums lack, each exactly once. Returns how far the ledger was
   * read; undefined when `sums` is full.
   */
  async #addOthers(
    { summedTo, edges }: Unread,
    sums: Summands,
    { filter, mayLag, signal }: TotalsQuery,
    cover: RangeCover,
  ): Promise<{ readonly head: number; readonly summedUpTo?: number } | undefined> {
    const { ledger } = this.#options;
    const complete = new Set([...cover.days, ...cover.hours]);
    let head = summedTo;
    const isBehind = mayLag === true && ledger.head() - head > MOST_READ;
    const summedUpTo = isBehind ? await this.#firstAfter(head) : undefined;
    for await (const { sequence, event } of isBehind ? [] : newerThan(ledger, head, signal)) {
      const { window_start: start } = event;
      const isComplete =
        complete.has(periodOf('hour', start)) || complete.has(periodOf('day', start));
      if (isComplete && filter(event) && !sums.add(event)) return undefined;
      head = sequence;
    }
    for (const { query, known } of edges) {
      for await (const { event } of this.#eventsAt(known, query)) {
        if (filter(event) && !sums.add(event)) return undefined;
      }
    }
    return { head, summedUpTo };
  }

  /** Where the events are; undefined if unknown, so that the events of all tenants must be read. */
  async #placesOf(
    found: StoredSums,
    { range: { from, to }, tenant }: EventsQuery,
  ): Promise<KnownPlaces | undefined> {
    const { ledger, clock } = this.#options;
    const after = this.#summedTo(found);
    const isStored = from >= clock.now() - STORED_MS.places && to - from <= STORED_MS.places;
    if (tenant === undefined || !isStored || after > ledger.head()) return undefined;
    const ranges = await found.places(hoursOf(from, to), tenant);
    return ranges && { ranges, after };
  }

  #eventsAt(known: KnownPlaces | undefined, query: EventsQuery): AsyncIterable<StoredEvent> {
    const { ledger } = this.#options;
    return known === undefined ? scanFor(ledger, query) : tenantEvents(ledger, known, query);
  }
}

/** The part of a range that the stored sums lack. */
interface Unread {
  /** The number after which no event is summed. */
  readonly summedTo: number;
  /** The parts of the range that are no full hours. */
  readonly edges: readonly UnreadEdge[];
}

interface UnreadEdge {
  readonly query: EventsQuery;
  readonly known: KnownPlaces | undefined;
}

/** When the first summed window began, as precisely as the sums know; undefined without sums. */
async function firstOf(found: StoredSums): Promise<number | undefined> {
  const [day, hour = ''] = await Promise.all([found.first('day'), found.first('hour')]);
  if (day === undefined) return undefined;
  const began = await found.began();
  // Usage that was pushed later may be of an earlier time.
  if (began?.startsWith(day) === true && (hour === '' || began.slice(0, hour.length) <= hour)) {
    return Date.parse(began);
  }
  return Date.parse(periodStart(hour.startsWith(day) ? hour : day));
}

/** Returns true when some of a range is older than the retained sums or events. */
function isPartlyGone({ days, hours, edges }: RangeCover, ledger: Ledger, now: number): boolean {
  const oldestEvent = ledger.stats().oldestAt ?? 0;
  const isExpired = (kind: PeriodKind, [first]: readonly string[]): boolean =>
    first !== undefined && Date.parse(periodStart(first)) < now - STORED_MS[kind];
  return (
    edges.some(({ from }) => from < oldestEvent) ||
    isExpired('hour', hours) ||
    isExpired('day', days)
  );
}
