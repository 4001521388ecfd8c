import { type Ledger, LedgerReadError, type StoredEvent } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { EventFilter, TimeRange } from '../query.ts';
import { createReadWriteLock } from './read-write-lock.ts';
import {
  coverRange,
  type PeriodKind,
  periodOf,
  periodStart,
  type RangeCover,
} from './sum-periods.ts';
import { decodeSums, SumRows } from './sum-rows.ts';
import { DamagedSums, KEPT_MS, type SumsStore } from './sums-store.ts';
import type { UsageSums } from './usage-sums.ts';

export interface UsageTotalsOptions {
  readonly ledger: Ledger;
  readonly store: SumsStore;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface TotalsQuery {
  readonly range: TimeRange;
  readonly filter: EventFilter;
  /** The one tenant that the filter lets through, if it names one. */
  readonly tenant?: string | undefined;
  /** Whether the hour of the day matters. */
  readonly hourly: boolean;
  readonly signal: AbortSignal;
}

/** Sums of usage over any range, without reading the ledger from end to end. */
export interface UsageTotals {
  /** Adds everything in range to `sums`. Throws a LedgerReadError where the ledger is damaged. */
  addTo(sums: UsageSums, query: TotalsQuery): Promise<TotalsOutcome>;
  /** Sums what is new in the ledger. */
  catchUp(signal: AbortSignal): Promise<void>;
  /** Catches up now and then until the signal is aborted. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

export type TotalsOutcome =
  /** `partial`: some of the range is older than what is kept. */
  | { readonly kind: 'added'; readonly partial: boolean }
  /** `sums` holds no more rows. */
  | { readonly kind: 'full' }
  /** Stored sums were damaged; they are being made anew from the ledger. */
  | { readonly kind: 'rebuilding' };

/** Between two rounds; what is newer is read from the ledger for each query. */
const ROUND_MS = 30_000;
const EXPIRE_MS = 3_600_000;
const PAGE_EVENTS = 2000;
/** Sums held in memory before they are stored. */
const MAX_CHANGED_SUMS = 20_000;

export function createUsageTotals(options: UsageTotalsOptions): UsageTotals {
  const { ledger, store, clock, logger } = options;
  const lock = createReadWriteLock();

  const rebuild = async (reason: string): Promise<void> => {
    logger.warn(`[http] usage sums are made anew: ${reason}`);
    await lock.write(() => store.clear());
  };

  const catchUp = async (signal: AbortSignal): Promise<void> => {
    if (store.progress > ledger.head()) await rebuild('they belong to another ledger');
    if (store.progress > 0 && store.progress < ledger.lowWater()) {
      logger.warn('[http] events were deleted before they were summed', { after: store.progress });
    }
    while (!signal.aborted && store.progress < ledger.head()) {
      const gathered = await gather(ledger, unsummedFrom(ledger, store), signal);
      if (gathered.progress === store.progress) return;
      await lock.write(() => store.commit(gathered.changes, gathered.progress));
    }
  };

  /** Every event of the range comes from exactly one place; false when `sums` is full. */
  const add = async (sums: UsageSums, query: TotalsQuery, cover: RangeCover): Promise<boolean> => {
    const { filter, tenant, signal } = query;
    for (const kind of ['day', 'hour'] as const) {
      for (const period of kind === 'day' ? cover.days : cover.hours) {
        signal.throwIfAborted();
        for await (const [owner, text] of store.read(kind, period, tenant)) {
          for (const { item, events } of decodeSums(owner, period, text)) {
            if (filter(item) && !sums.add(item, events)) return false;
          }
        }
      }
    }
    const whole = new Set([...cover.days, ...cover.hours]);
    for await (const { event } of newerThan(ledger, unsummedFrom(ledger, store), signal)) {
      const { window_start: start } = event;
      const isWhole = whole.has(periodOf('hour', start)) || whole.has(periodOf('day', start));
      if (isWhole && filter(event) && !sums.add(event)) return false;
    }
    for (const edge of cover.edges) {
      for await (const { event } of ledger.scan(edge.from, edge.to, signal)) {
        if (filter(event) && !sums.add(event)) return false;
      }
    }
    return true;
  };

  return {
    addTo: async (sums, query) => {
      const cover = coverRange(query.range.from, query.range.to, query.hourly);
      try {
        const added = await lock.read(() => add(sums, query, cover));
        if (!added) return { kind: 'full' };
        return { kind: 'added', partial: isPartlyGone(cover, ledger, clock.now()) };
      } catch (error) {
        if (!(error instanceof DamagedSums)) throw error;
        await rebuild(error.message);
        return { kind: 'rebuilding' };
      }
    },
    catchUp,
    run: async (signal) => {
      let expiredAt = Number.NEGATIVE_INFINITY;
      const round = async (): Promise<void> => {
        await catchUp(signal);
        if (clock.monotonic() - expiredAt < EXPIRE_MS) return;
        expiredAt = clock.monotonic();
        await lock.write(() => store.expire(clock.now()));
      };
      const recover = async (error: unknown): Promise<void> => {
        if (signal.aborted) return;
        if (error instanceof DamagedSums) await rebuild(error.message);
        else logger.warn('[http] usage is not summed up', { error });
      };
      while (!signal.aborted) {
        await round().catch(recover);
        await clock.sleep(ROUND_MS, signal).catch(() => undefined);
      }
    },
  };
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

/** Events that were deleted before they could be summed are beyond recall. */
function unsummedFrom(ledger: Ledger, store: SumsStore): number {
  return Math.max(store.progress, ledger.lowWater());
}

async function gather(ledger: Ledger, after: number, signal: AbortSignal) {
  const changes = new Map<string, Map<string, SumRows>>();
  let progress = after;
  let sums = 0;
  for await (const { sequence, event } of newerThan(ledger, after, signal)) {
    const hour = periodOf('hour', event.window_start);
    const tenants = changes.get(hour) ?? new Map<string, SumRows>();
    changes.set(hour, tenants);
    const rows = tenants.get(event.tenant) ?? new SumRows();
    tenants.set(event.tenant, rows);
    sums -= rows.size;
    rows.addEvent(event);
    sums += rows.size;
    progress = sequence;
    if (sums >= MAX_CHANGED_SUMS) break;
  }
  return { changes, progress };
}

/** Everything after a sequence number, up to the head as it is when it is reached. */
async function* newerThan(
  ledger: Ledger,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<StoredEvent> {
  for (let position = after; ; ) {
    signal.throwIfAborted();
    const page = await ledger.read(position, PAGE_EVENTS);
    if (page.kind === 'failed') throw new LedgerReadError(page);
    if (page.events.length === 0) return;
    yield* page.events;
    position = page.lastSequence;
  }
}
