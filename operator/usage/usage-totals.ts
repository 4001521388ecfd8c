import { type Ledger, LedgerReadError, type StoredEvent } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import {
  coverRange,
  hoursOf,
  type PeriodKind,
  periodOf,
  periodStart,
  type RangeCover,
} from '../model/periods.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { newerThan } from './newer-than.ts';
import { SumKeeper, type SumKeeperOptions } from './sum-keeper.ts';
import { decodeSums } from './sum-rows.ts';
import { DamagedSums, KEPT_MS, type SumsStore } from './sums-store.ts';
import { type EventsQuery, type KnownPlaces, scanFor, tenantEvents } from './tenant-events.ts';
import type { EventFilter, Summands, TimeRange } from './usage-sums.ts';

export interface TotalsQuery {
  readonly range: TimeRange;
  readonly filter: EventFilter;
  /** The one tenant that the filter lets through, if it names one. */
  readonly tenant?: string | undefined;
  /** Whether the hour of the day matters. */
  readonly hourly: boolean;
  /** Leaves out what is not summed yet where that is too much to read for an answer: the outcome has `summedUpTo` then. */
  readonly mayLag?: boolean;
  readonly signal: AbortSignal;
}

/** So many events that are not summed yet are read for an answer: a few seconds. */
const MOST_READ = 200_000;

/** Sums of usage over any range, without reading the ledger from end to end. */
export interface UsageTotals {
  /** Adds everything in range to `sums`. Throws a LedgerReadError where the ledger is damaged. */
  addTo(sums: Summands, query: TotalsQuery): Promise<TotalsOutcome>;
  /**
   * The events of a query in ledger order: of a tenant mostly without reading those of others. Throws a LedgerReadError where
   * the ledger is damaged.
   */
  events(query: EventsQuery): AsyncIterable<StoredEvent>;
  /**
   * When the first window began that is kept, milliseconds since the epoch; undefined while nothing is. Where the sums know
   * no more than its hour or day, the beginning of that.
   */
  since(): Promise<number | undefined>;
  /** Sums what is new in the ledger. */
  catchUp(signal: AbortSignal): Promise<void>;
  /** Catches up now and then until the signal is aborted. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

/** Sums that are kept of a ledger. */
export interface KeptTotals extends UsageTotals {
  /**
   * Takes events that somebody has just read, which need not be read once more to be summed: all that there are after a
   * sequence number, up to some other. Never throws.
   */
  hear(events: readonly StoredEvent[], after: number): void;
}

export type TotalsOutcome =
  /**
   * `partial`: some of the range is older than what is kept. Of the whole hours of the range everything up to the
   * sequence number `head` was added, and nothing after it; absent where no sums are kept. `summedUpTo`: the start of the
   * first window of the range that may be left out because sums have not reached it, milliseconds since the epoch.
   */
  | {
      readonly kind: 'added';
      readonly partial: boolean;
      readonly head?: number;
      readonly summedUpTo?: number;
    }
  /** `sums` holds no more rows. */
  | { readonly kind: 'full' }
  /** Stored sums were damaged; they are being made anew from the ledger. */
  | { readonly kind: 'rebuilding' };

export function createUsageTotals(options: SumKeeperOptions): KeptTotals {
  return new LedgerTotals(options);
}

class LedgerTotals implements KeptTotals {
  readonly #ledger: Ledger;
  readonly #store: SumsStore;
  readonly #clock: Clock;
  readonly #keeper: SumKeeper;

  constructor(options: SumKeeperOptions) {
    this.#ledger = options.ledger;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#keeper = new SumKeeper(options);
  }

  async addTo(sums: Summands, query: TotalsQuery): Promise<TotalsOutcome> {
    const cover = coverRange(query.range.from, query.range.to, query.hourly);
    try {
      const added = await this.#keeper.reading(() => this.#add(sums, query, cover));
      if (added === undefined) return { kind: 'full' };
      const partial = isPartlyGone(cover, this.#ledger, this.#clock.now());
      return { kind: 'added', partial, ...added };
    } catch (error) {
      if (!(error instanceof DamagedSums)) throw error;
      await this.#keeper.rebuild(error.message);
      return { kind: 'rebuilding' };
    }
  }

  async *events(query: EventsQuery): AsyncGenerator<StoredEvent> {
    const known = await this.#keeper
      .reading(() => this.#placesOf(query))
      .catch((error: unknown) => this.#doWithout(error));
    yield* this.#eventsAt(known, query);
  }

  since(): Promise<number | undefined> {
    return this.#keeper.reading(() => this.#since());
  }

  async #since(): Promise<number | undefined> {
    const store = this.#store;
    const [day, hour = ''] = await Promise.all([store.first('day'), store.first('hour')]);
    if (day === undefined) return this.#firstUnsummed();
    const began = await store.began();
    // Usage that was pushed later may be of an earlier time.
    if (began?.startsWith(day) === true && (hour === '' || began.slice(0, hour.length) <= hour)) {
      return Date.parse(began);
    }
    return Date.parse(periodStart(hour.startsWith(day) ? hour : day));
  }

  async #firstUnsummed(): Promise<number | undefined> {
    const page = await this.#ledger.read(this.#keeper.summedTo, 1);
    if (page.kind === 'failed') throw new LedgerReadError(page);
    const [first] = page.events;
    return first === undefined ? undefined : Date.parse(first.event.window_start);
  }

  hear(events: readonly StoredEvent[], after: number): void {
    this.#keeper.hear(events, after);
  }

  catchUp(signal: AbortSignal): Promise<void> {
    return this.#keeper.catchUp(signal);
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#keeper.run(signal);
  }

  /** Nobody has to wait for what the ledger itself answers. */
  async #doWithout(error: unknown): Promise<undefined> {
    if (!(error instanceof DamagedSums)) throw error;
    await this.#keeper.rebuild(error.message);
  }

  /** Every event of the range comes from exactly one place. Gives how far the ledger was read; undefined when `sums` is full. */
  async #add(
    sums: Summands,
    query: TotalsQuery,
    cover: RangeCover,
  ): Promise<{ readonly head: number; readonly summedUpTo?: number } | undefined> {
    if (!(await this.#addStored(sums, query, cover))) return undefined;
    const [ledger, { filter, tenant, signal }] = [this.#ledger, query];
    const whole = new Set([...cover.days, ...cover.hours]);
    let head = this.#keeper.summedTo;
    const isBehind = query.mayLag === true && ledger.head() - head > MOST_READ;
    const summedUpTo = isBehind ? await this.#firstUnsummed() : undefined;
    for await (const { sequence, event } of isBehind ? [] : newerThan(ledger, head, signal)) {
      const { window_start: start } = event;
      const isWhole = whole.has(periodOf('hour', start)) || whole.has(periodOf('day', start));
      if (isWhole && filter(event) && !sums.add(event)) return undefined;
      head = sequence;
    }
    for (const edge of cover.edges) {
      const edgeQuery = { range: edge, tenant, signal };
      const known = await this.#placesOf(edgeQuery);
      for await (const { event } of this.#eventsAt(known, edgeQuery)) {
        if (filter(event) && !sums.add(event)) return undefined;
      }
    }
    return { head, ...omitUndefined({ summedUpTo }) };
  }

  /** Where the events are; undefined where that is not known, so that those of all tenants have to be read. */
  async #placesOf({ range, tenant }: EventsQuery): Promise<KnownPlaces | undefined> {
    const { from, to } = range;
    const after = this.#keeper.summedTo;
    const isKept = from >= this.#clock.now() - KEPT_MS.hour && to - from <= KEPT_MS.hour;
    if (tenant === undefined || !isKept || after > this.#ledger.head()) return undefined;
    const ranges = await this.#store.places(hoursOf(from, to), tenant);
    return ranges && { ranges, after };
  }

  #eventsAt(known: KnownPlaces | undefined, query: EventsQuery): AsyncIterable<StoredEvent> {
    return known === undefined
      ? scanFor(this.#ledger, query)
      : tenantEvents(this.#ledger, known, query);
  }

  async #addStored(sums: Summands, query: TotalsQuery, cover: RangeCover): Promise<boolean> {
    const { filter, tenant, signal } = query;
    const periods = [
      ...cover.days.map((period) => ['day', period] as const),
      ...cover.hours.map((period) => ['hour', period] as const),
    ];
    for (const [kind, period] of periods) {
      signal.throwIfAborted();
      for await (const [owner, text] of this.#store.read(kind, period, tenant)) {
        for (const { item, events } of decodeSums(owner, period, text)) {
          if (filter(item) && !sums.add(item, events)) return false;
        }
      }
    }
    return true;
  }
}

/** Whether some of a range is older than what is kept of it. */
function isPartlyGone({ days, hours, edges }: RangeCover, ledger: Ledger, now: number): boolean {
  const oldestEvent = ledger.stats().oldestAt ?? 0;
  const isExpired = (kind: PeriodKind, [first]: readonly string[]): boolean =>
    first !== undefined && Date.parse(periodStart(first)) < now - KEPT_MS[kind];
  return (
    edges.some(({ from }) => from < oldestEvent) ||
    isExpired('hour', hours) ||
    isExpired('day', days)
  );
}
