import type { Registry } from 'prom-client';
import type { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import { SharedLock } from '../billing/held-usage/shared-lock.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import { type Ledger, type LedgerFailure, LedgerReadError } from '../ledger/ledger.ts';
import { errorText } from '../model/error-text.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { type AcceptOutcome, type AdmissionOptions, RequestAdmission } from './admission.ts';
import { type Closed, eventOf, NOTHING_CLOSED, settledEnd } from './closing.ts';
import { type DeadLetter, DeadLetters, type RefusedRequest } from './dead-letters.ts';
import { Entries } from './entries.ts';
import type { RequestEntry } from './entry.ts';
import { createIntakeMetrics, type IntakeMetrics, type IntakeStats } from './intake-metrics.ts';
import { OpenSums, type SeriesSum } from './open-sums.ts';
import type { ReportedRequest } from './reported-request.ts';

export interface IntakeOptions extends AdmissionOptions {
  readonly ledger: Ledger;
  readonly held: Pick<HeldUsage, 'push' | 'isKnown' | 'room'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry?: Registry;
}

/** What a closing writes, in one transaction. A retry writes the same. */
interface WindowClosing {
  readonly sums: OpenSums;
  readonly before: Closed;
  readonly next: Closed;
  /** The events of the sums, once they are made. */
  events?: readonly UsageEvent[];
  attempts: number;
}

const POLL_MS = 1_000;
/** After a closing or a read that failed. */
const RETRY_MS = 5_000;

const NOT_READY = ledgerFailure('retryable', 'intake: reads its records after a start: try again');

/**
 * Accepts reported requests once, sums them by series and window, and closes each window as usage
 * events (docs/reference/events.md#usage-of-ai-gateways):
 *
 * 1. An accepted request is a numbered record. It counts from the moment at which that is durable.
 * 2. A closing takes all entries up to a number, the cut. Events and cut are one transaction.
 * 3. Therefore the records alone say which entries are in an event, and the sums in memory are read
 *    from them at the start.
 */
export class Intake {
  readonly #options: IntakeOptions;
  readonly #entries: Entries;
  readonly #letters: DeadLetters;
  readonly #metrics: IntakeMetrics;
  readonly #admission: RequestAdmission;
  /** Accepting is shared, the cut of a closing is exclusive: no write is under way at a cut. */
  readonly #lock = new SharedLock();
  #ready = false;
  #open: OpenSums;
  #closed: Closed = NOTHING_CLOSED;
  /** Cut, but not known to be written. */
  #closing: WindowClosing | undefined;
  /** The last closing that is written, and the head of the ledger then. */
  #written: { readonly sums: OpenSums; readonly head: number } | undefined;

  constructor(options: IntakeOptions) {
    const { ledger, registry } = options;
    this.#options = options;
    this.#open = new OpenSums(options.region);
    this.#entries = new Entries(ledger);
    this.#letters = new DeadLetters(ledger);
    this.#metrics = createIntakeMetrics(registry, () => this.stats());
    this.#admission = new RequestAdmission(options, this.#entries, this.#letters, this.#metrics);
  }

  /**
   * Takes the requests of one body durably, all together. Also stores `refused` parts of it, which
   * nobody could read, as dead letters.
   */
  async accept(
    requests: readonly ReportedRequest[],
    client: string,
    refused: readonly RefusedRequest[] = [],
  ): Promise<AcceptOutcome> {
    if (!this.#ready) return NOT_READY;
    try {
      return await this.#lock.runShared(() =>
        this.#admission.take({ requests, client, refused }, this.#open, this.#closed.until),
      );
    } catch (error) {
      if (error instanceof LedgerReadError) return error.failure;
      throw error;
    }
  }

  /**
   * The usage of a tenant that is accepted and not in the ledger's events up to a position. So a
   * reader that has not read the events of the last closing counts them once.
   */
  openSums(tenant: string, position = Number.POSITIVE_INFINITY): readonly SeriesSum[] {
    const written = this.#written;
    const unread = written !== undefined && position < written.head ? written.sums : undefined;
    return [this.#open, this.#closing?.sums, unread].flatMap((one) => one?.of(tenant) ?? []);
  }

  /** False until the records of earlier processes are read. */
  get isReady(): boolean {
    return this.#ready;
  }

  /** The stored dead letters, oldest first. */
  deadLetters(): AsyncIterable<DeadLetter> {
    return this.#letters.list();
  }

  stats(): IntakeStats {
    return {
      entries: this.#entries.count(),
      openSums: this.#open.size + (this.#closing?.sums.size ?? 0),
      closedUntil: this.#closed.until,
    };
  }

  /** Reads the records of earlier processes, then closes windows until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    while (!signal.aborted) {
      let wait = POLL_MS;
      try {
        if (!this.#ready) await this.load();
        const failure = await this.closeDue();
        if (failure !== undefined) throw new LedgerReadError(failure);
      } catch (error) {
        wait = RETRY_MS;
        logger.warn(`[intake] ${errorText(error)}`);
      }
      await clock.sleep(wait, signal).catch(() => undefined);
    }
  }

  /** Reads the records of earlier processes. Rejects if the ledger cannot be read. */
  async load(): Promise<void> {
    const closed = await this.#entries.closed();
    this.#closed = closed === undefined ? NOTHING_CLOSED : (JSON.parse(closed) as Closed);
    this.#open = new OpenSums(this.#options.region);
    let newest = this.#closed.cut;
    for await (const entry of this.#entries.load()) {
      newest = Math.max(newest, entry.number);
      if (!this.#isClosed(entry)) this.#open.add(entry);
    }
    await this.#letters.load();
    this.#admission.begin(newest, this.#closed.from);
    this.#ready = true;
  }

  /** Closes the windows that are due, and drops the hours that nobody may send any more. */
  async closeDue(): Promise<LedgerFailure | undefined> {
    const { held, logger, clock, windowMs } = this.#options;
    const at = settledEnd(clock.now(), windowMs());
    if (this.#closing === undefined && at !== this.#closed.at) {
      const failure = await this.#lock.runExclusive(() => this.#cut(at));
      if (failure !== undefined) return failure;
    }
    const closing = this.#closing;
    if (closing !== undefined) {
      const { next } = closing;
      closing.events ??= await this.#eventsOf(closing);
      const { events } = closing;
      closing.attempts += 1;
      const records = [this.#entries.putClosed(JSON.stringify(next))];
      const outcome = await held.push(events, { records });
      if (outcome.kind === 'too-much-held') {
        return ledgerFailure('retryable', 'intake: closing a window: too much usage is held');
      }
      if (outcome.kind === 'failed') return outcome;
      for (const [index, event] of events.entries()) {
        const word = outcome.outcomes[index];
        // A repeated attempt finds the events of the one before.
        if (word === 'accepted' || (word === 'duplicate' && closing.attempts > 1)) continue;
        this.#metrics.conflict();
        logger.error(
          `[intake] not billed, because another event has its id: ${event.id}: "${event.quantity}" ${event.unit} of ${event.metric}, tenant "${event.tenant}"`,
        );
      }
      this.#closed = next;
      this.#written = { sums: closing.sums, head: this.#options.ledger.head() };
      this.#closing = undefined;
    }
    await this.#entries.drop(this.#closed.from);
    return undefined;
  }

  /** Begins the closing of the windows up to `at`. Runs while nothing is accepted. */
  async #cut(at: number): Promise<LedgerFailure | undefined> {
    const { clock, lateForMs } = this.#options;
    const now = clock.now();
    const before = this.#closed;
    const until = Math.max(at, before.until);
    // Entries of unknown writes would be below the cut without being in a sum.
    const failure = await this.#admission.settle();
    if (failure !== undefined) return failure;
    const isNew = until > before.until && this.#entries.count() > 0;
    const sums = this.#open.take(until);
    if (sums.size === 0 && !isNew) return undefined;
    const cut = this.#admission.newest();
    const starts = this.#open.all().map(({ window }) => window.start);
    const oldest = starts.reduce((least, start) => Math.min(least, start), now - lateForMs());
    const from = Math.max(before.from, this.#entries.endBefore(oldest) ?? 0);
    this.#admission.refuseBefore(from);
    this.#closing = { sums, before, next: { until, cut, from, at }, attempts: 0 };
    return undefined;
  }

  async #eventsOf({ sums, before, next }: WindowClosing): Promise<readonly UsageEvent[]> {
    const { clock, held, logger } = this.#options;
    const slice = new TimeSlice(clock);
    const recordedAt = new Date(clock.now()).toISOString();
    const events: UsageEvent[] = [];
    for (const sum of sums.all()) {
      if (slice.isOver) await slice.next();
      const place = { isLate: sum.window.end <= before.until, isKnown: held.isKnown(sum.tenant) };
      const completed = eventOf(sum, place, next.cut, recordedAt);
      if (completed.kind === 'event') events.push(completed.event);
      else logger.error(`[intake] not billed: ${completed.problem}`);
    }
    return events;
  }

  #isClosed({ number, window }: RequestEntry): boolean {
    return number <= this.#closed.cut && window.end <= this.#closed.until;
  }
}
