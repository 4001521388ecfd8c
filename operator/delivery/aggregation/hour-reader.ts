import type { Ledger, LedgerFailure, StoredEvent } from '../../ledger/ledger.ts';
import { isLateNote } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import { formatInstant } from '../../model/window.ts';
import type { BlockReason, DeliveryResult, QueuedEvent } from '../delivery-result.ts';
import type { AggregatedRange, Cuts } from '../records/aggregated-range.ts';
import type { InFlight } from '../records/in-flight.ts';
import { type Aggregator, createAggregator, HOUR_MS, hourEnd, hourStart } from './aggregator.ts';
import { HourCuts, type HourCutsOptions, insideOf } from './hour-cuts.ts';
import type { AggregatedRanges } from './ranges.ts';

const PAGE_EVENTS = 1_000;
/** Sums that are made at once, so that a long backlog does not fill the memory. */
const MAX_SUMS = 50_000;
/** The last windows of an hour are in the ledger by then. */
const SETTLING_MS = 60_000;
/** Where no window says that an hour is over, it is taken to be. */
const SILENT_MS = 10 * 60_000;
/** An hour is divided for a change or an end at most so often, since that divides it for everybody. */
const EARLY_EVERY_MS = 15 * 60_000;
/** How often it is looked whether the windows of an hour that has passed are all there; those with usage tell it. */
const CHECK_EVERY_MS = 15_000;
const TORN =
  'what is left of a sum: an attempt to send all of it had no answer, and some of its parts are deleted since: see whether the destination has the sum, then discard this, or replay it to have what is left sent';
/** The wall clock may be set meanwhile. */
const LONGEST_WAIT_MS = 300_000;

/** What there is to be sent next. */
export type HourRead =
  /** Events as they are, up to a sequence number where there is one. */
  | { readonly kind: 'plain'; readonly until?: number }
  /** Nothing before the hour is over. */
  | { readonly kind: 'waiting' }
  /** The range is on record, but for one without sums. */
  | {
      readonly kind: 'range';
      readonly range: AggregatedRange;
      readonly sums: readonly QueuedEvent[];
      /** Events that the destination does not want. */
      readonly skipped: number;
      /** Of sums that are not to be sent, by where they stand. */
      readonly torn?: ReadonlyMap<number, DeliveryResult>;
    }
  | { readonly kind: 'blocked'; readonly reason: BlockReason }
  | LedgerFailure;

/** Reads a destination's events hour by hour, each series of an hour as one sum (docs/delivery.md#aggregation). */
export interface HourReader {
  read(position: number, wants: Wants, signal: AbortSignal): Promise<HourRead>;
  /** Events up to here may have been sent as they are. */
  begin(aggregatesFrom: number): void;
  /** While it waits: when the hour of the oldest event that is still to be sent is over. */
  waitsUntil(): number | undefined;
  /** The same, RFC 3339: what is sent only then is not behind before. */
  waitsFrom(): string | undefined;
  /** Milliseconds until it is worth reading again; undefined while there is nothing to wait for. */
  dueIn(): number | undefined;
  /** Sums an hour that come now; undefined before the first hour, or where nothing is added up. */
  sumsPerHour(): number | undefined;
}

export type Wants = (event: UsageEvent) => boolean;

export interface HourReaderOptions extends HourCutsOptions {
  readonly isOn: boolean;
  readonly ledger: Pick<Ledger, 'read' | 'head' | 'stats' | 'lowWater'>;
  readonly ranges: AggregatedRanges;
  readonly inFlight: Pick<InFlight, 'unansweredSince'>;
  /** Up to where in the ledger everything has to be sent before a change of plan, or an offboarding. */
  readonly drainsTo: () => number;
}

export function createHourReader(options: HourReaderOptions): HourReader {
  return new AggregatingReader(options);
}

class AggregatingReader implements HourReader {
  readonly #options: HourReaderOptions;
  readonly #cuts: HourCuts;
  #aggregatesFrom = 0;
  #waiting: { readonly position: number; readonly until: number } | undefined;
  #earlyAt = Number.NEGATIVE_INFINITY;
  #made: readonly { readonly at: number; readonly sums: number }[] = [];

  constructor(options: HourReaderOptions) {
    this.#options = options;
    this.#cuts = new HourCuts(options);
  }

  begin(aggregatesFrom: number): void {
    this.#aggregatesFrom = aggregatesFrom;
    this.#waiting = undefined;
  }

  waitsUntil(): number | undefined {
    return this.#waiting?.until;
  }

  waitsFrom(): string | undefined {
    return this.#waiting && formatInstant(this.#waiting.until);
  }

  dueIn(): number | undefined {
    if (this.#waiting === undefined) return undefined;
    const left = this.#waiting.until + SETTLING_MS - this.#options.clock.now();
    return left > 0 ? Math.min(LONGEST_WAIT_MS, left) : CHECK_EVERY_MS;
  }

  sumsPerHour(): number | undefined {
    if (!this.#options.isOn || this.#made.length === 0) return undefined;
    return this.#made.reduce((all, { sums }) => all + sums, 0);
  }

  async read(position: number, isWanted: Wants, signal: AbortSignal): Promise<HourRead> {
    // How an event was billed concerns no destination.
    const wants: Wants = (event) => !isLateNote(event) && isWanted(event);
    const { isOn, ranges, ledger } = this.#options;
    const sealed = ranges.after(position);
    if (sealed !== undefined) return this.#again(sealed, wants);
    const next = ranges.nextFrom(position);
    if (next !== undefined) return { kind: 'plain', until: next };
    if (!isOn) return { kind: 'plain' };
    if (position < this.#aggregatesFrom) return { kind: 'plain', until: this.#aggregatesFrom };
    const isEarly = this.#isEarly(position);
    const closed = this.#closedUntil();
    const { position: waitsAt, until = 0 } = this.#waiting ?? {};
    if (waitsAt === position && closed < until && !isEarly) return { kind: 'waiting' };
    if (ledger.head() === position) {
      this.#waiting = undefined;
      return { kind: 'waiting' };
    }
    return this.#sealNext(position, isEarly ? Number.POSITIVE_INFINITY : closed, wants, signal);
  }

  /** The sums of a range that is on record. */
  async #again(range: AggregatedRange, wants: Wants): Promise<HourRead> {
    const sums = createAggregator(range.cuts ?? {});
    let skipped = 0;
    let at = range.from;
    while (at < range.to) {
      const page = await this.#options.ledger.read(at, PAGE_EVENTS);
      if (page.kind === 'failed') return page;
      for (const { sequence, event } of page.events) {
        if (sequence > range.to) break;
        if (wants(event)) sums.add({ sequence, event });
        else skipped += 1;
      }
      if (page.events.length === 0) break;
      at = page.lastSequence;
    }
    this.#waiting = undefined;
    const all = sums.all();
    return { kind: 'range', range, sums: all, skipped, torn: this.#torn(range, all) };
  }

  /**
   * A cursor that was retired for longer than RETENTION does not keep its events: what is left of a sum that may have been taken is
   * another sum, under another id.
   */
  #torn(range: AggregatedRange, sums: readonly QueuedEvent[]): ReadonlyMap<number, DeliveryResult> {
    const { ledger, inFlight } = this.#options;
    const torn = new Map<number, DeliveryResult>();
    if (range.from >= ledger.lowWater()) return torn;
    const { horizon } = ledger.stats();
    for (const sum of sums) {
      const unansweredSince = inFlight.unansweredSince(sum);
      if (unansweredSince === undefined || hourStart(sum.event.window_start) >= horizon) continue;
      torn.set(sum.sequence, { kind: 'dead', reason: TORN, unansweredSince });
    }
    return torn;
  }

  /** Reads on to the first event of an hour that is not over, and puts on record what that is. */
  async #sealNext(
    from: number,
    closed: number,
    wants: Wants,
    signal: AbortSignal,
  ): Promise<HourRead> {
    const { ledger, clock } = this.#options;
    const cuts: Record<string, readonly number[]> = {};
    const sums = createAggregator(cuts);
    let skipped = 0;
    let to = from;
    let open: number | undefined;
    while (open === undefined && sums.size < MAX_SUMS) {
      const page = await ledger.read(to, PAGE_EVENTS);
      if (page.kind === 'failed') return page;
      if (page.events.length === 0) {
        to = page.lastSequence;
        break;
      }
      const taken = this.#takeClosed(page.events, closed);
      open = taken.open;
      const wanted = taken.events.filter(({ event }) => wants(event));
      const failed = await this.#cuts.learn(wanted, cuts, signal);
      if (failed !== undefined) return { kind: 'blocked', reason: failed };
      for (const stored of taken.events) {
        if (wants(stored.event)) sums.add(stored);
        else skipped += 1;
      }
      to = taken.events.at(-1)?.sequence ?? to;
    }
    this.#waiting = open === undefined ? undefined : { position: to, until: open };
    if (to === from) return { kind: 'waiting' };
    if (closed === Number.POSITIVE_INFINITY) this.#earlyAt = clock.monotonic();
    return this.#seal({ from, to }, sums, cuts, skipped);
  }

  async #seal(
    { from, to }: { readonly from: number; readonly to: number },
    sums: Aggregator,
    cuts: Cuts,
    skipped: number,
  ): Promise<HourRead> {
    const { ranges, clock } = this.#options;
    const all = sums.all();
    const kept = insideOf(cuts, all);
    const range = { from, to, ...(Object.keys(kept).length > 0 && { cuts: kept }) };
    if (all.length > 0) {
      const outcome = await ranges.seal(range);
      if (outcome.kind === 'failed') return outcome;
    }
    const at = clock.monotonic();
    const recent = this.#made.filter((each) => at - each.at < HOUR_MS);
    this.#made = [...recent, { at, sums: all.length }];
    return { kind: 'range', range, sums: all, skipped };
  }

  /** The events before the first of an hour that is not over, and when that is. */
  #takeClosed(
    events: readonly StoredEvent[],
    closed: number,
  ): { readonly events: readonly StoredEvent[]; readonly open?: number } {
    const now = this.#options.clock.now();
    for (const [index, { event }] of events.entries()) {
      const end = hourEnd(Date.parse(event.window_start));
      // What is ahead of its time must not hold up everything else.
      if (end <= closed || end > now + HOUR_MS) continue;
      return { events: events.slice(0, index), open: end };
    }
    return { events };
  }

  /** Up to when hours are over and in the ledger. */
  #closedUntil(): number {
    const { ledger, clock } = this.#options;
    const now = clock.now();
    const { lastWindowEnd = 0 } = ledger.stats();
    const settled = now - SETTLING_MS;
    return Math.max(
      Math.floor(Math.min(settled, lastWindowEnd) / HOUR_MS) * HOUR_MS,
      Math.floor((now - SILENT_MS) / HOUR_MS) * HOUR_MS,
    );
  }

  /** Whether an hour is to be divided now: for a drain, or because somebody's billing period is over. */
  #isEarly(position: number): boolean {
    const { clock, drainsTo, ledger } = this.#options;
    if (clock.monotonic() - this.#earlyAt < EARLY_EVERY_MS) return false;
    if (drainsTo() > position) return true;
    const { lastWindowEnd = 0 } = ledger.stats();
    const passed = Math.min(clock.now() - SETTLING_MS, lastWindowEnd);
    return this.#cuts.passWithinHour(passed);
  }
}
