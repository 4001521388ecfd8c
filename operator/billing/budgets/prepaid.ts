import { type Ledger, LedgerReadError, type RecordChange } from '../../ledger/ledger.ts';
import { PREPAID_CURSOR } from '../../ledger/own-cursors.ts';
import { dependsOnMonth } from '../../model/pricing/charges.ts';
import type { SettingsStore } from '../../settings/settings.ts';
import type { BudgetCounts } from '../../model/budget.ts';
import type { UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/quote.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import type { UsageTotals } from '../usage/usage-totals.ts';
import { BOOK_PREFIX, bookRecord, parseBook } from './book-record.ts';
import { type Credited, type Credits, sumCredits } from './credits.ts';
import { hourStart, monthOf, nextDay } from './period.ts';
import { PrepaidBook } from './prepaid-book.ts';
import { unitText } from './unit.ts';

const PAGE_EVENTS = 2_000;
/** After a kill the events since the last save are read again. */
const SAVE_MS = 300_000;

/**
 * The credits of tenants, and their usage since the first one. Books are written in one transaction
 * with the sequence number of their last event. So a book contains each event once, even after a
 * kill. Callers make one call at a time.
 */
export class PrepaidBalances {
  readonly #options;
  readonly #books = new Map<string, PrepaidBook>();
  readonly #byTenant = new Map<string, PrepaidBook[]>();
  readonly #credited = new Map<string, Credited>();
  /** Keys of damaged records. No new book replaces a damaged one. */
  readonly #damaged = new Set<string>();
  /** Books with usage that their records lack. */
  readonly #unsaved = new Set<PrepaidBook>();
  /** The sequence number of the last event that the books contain. */
  #position = 0;
  #savedAt = Number.NEGATIVE_INFINITY;

  constructor(options: {
    readonly ledger: Pick<
      Ledger,
      'head' | 'read' | 'scan' | 'records' | 'cursors' | 'commitCursor' | 'stats'
    >;
    readonly credits: Pick<Credits, 'list'>;
    /** Undefined until the sums are open. */
    readonly totals: () => Pick<UsageTotals, 'addTo'> | undefined;
    readonly settings: Pick<SettingsStore, 'current'>;
    readonly isCharged: (metric: string) => boolean;
    readonly clock: Clock;
    readonly logger: Pick<Logger, 'error'>;
  }) {
    this.#options = options;
  }

  /** The sequence number of the last event that the books contain. */
  get position(): number {
    return this.#position;
  }

  /** True while no tenant has a credit. */
  get isEmpty(): boolean {
    return this.#books.size === 0;
  }

  /** Reads the records of earlier processes. Throws when the ledger cannot be read. */
  async load(): Promise<void> {
    const { ledger, credits, logger } = this.#options;
    for (const known of [this.#books, this.#byTenant, this.#credited, this.#damaged]) known.clear();
    for (const sum of await sumCredits(credits.list())) this.#credited.set(nameOf(sum), sum);
    const cursor = ledger.cursors().find(({ destination }) => destination === PREPAID_CURSOR);
    for await (const [key, text] of ledger.records(BOOK_PREFIX)) {
      const book = cursor === undefined ? undefined : parseBook(text);
      if (book !== undefined) this.#addBook(book);
      else {
        logger.error(`[budgets] damaged record, ignored: ${key}: ${quote(text)}`);
        this.#damaged.add(key);
      }
    }
    this.#position = cursor?.sequence ?? ledger.head();
  }

  /** Reads a tenant's credits again. */
  async refreshCredits(tenant: string): Promise<void> {
    for (const sum of await sumCredits(this.#options.credits.list(tenant))) {
      this.#credited.set(nameOf(sum), sum);
    }
  }

  /** The sum of a tenant's credits, in the units of a budget. */
  credited(tenant: string, counts: BudgetCounts): bigint {
    return this.#credited.get(nameOf({ tenant, counts }))?.amount ?? 0n;
  }

  /** A tenant's book in this unit; undefined if there is none. */
  book(tenant: string, counts: BudgetCounts): PrepaidBook | undefined {
    return this.#books.get(nameOf({ tenant, counts }));
  }

  /** True when the record of a tenant's book in this unit is damaged: its usage is unknown. */
  isDamaged(tenant: string, counts: BudgetCounts): boolean {
    return this.#damaged.has(BOOK_PREFIX + nameOf({ tenant, counts }));
  }

  /** Adds an event to the books once; ignores repeats. */
  add(sequence: number, event: UsageEvent): void {
    if (sequence <= this.#position) return;
    this.#position = sequence;
    const books = this.#byTenant.get(event.tenant);
    if (books === undefined || !this.#options.isCharged(event.metric)) return;
    for (const book of books) if (book.add(event)) this.#unsaved.add(book);
  }

  /** Adds the events of the ledger up to the sequence number `until`. */
  async follow(until: number): Promise<void> {
    const { ledger } = this.#options;
    // Without books there is nothing to add to.
    if (this.#books.size === 0) this.#position = Math.max(this.#position, until);
    while (this.#position < until) {
      const page = await ledger.read(this.#position, PAGE_EVENTS);
      if (page.kind === 'failed') throw new LedgerReadError(page);
      if (page.events.length === 0) return;
      for (const { sequence, event } of page.events) {
        if (sequence <= until) this.add(sequence, event);
      }
      if (page.lastSequence >= until) this.#position = Math.max(this.#position, until);
    }
  }

  /**
   * Opens a book for each credited balance without one, with its usage in the ledger so far.
   * Returns the new books; undefined while that usage is unknown.
   */
  async open(signal: AbortSignal): Promise<readonly PrepaidBook[] | undefined> {
    const books = this.#bookless().map(({ tenant, counts, since }) => {
      return new PrepaidBook(tenant, counts, { since, settled: 0n, lines: [], rows: [] });
    });
    if (books.length === 0) return [];
    const byTenant = Map.groupBy(books, ({ tenant }) => tenant);
    const add = (item: UsageItem): true => {
      for (const book of byTenant.get(item.tenant) ?? []) book.add(item);
      return true;
    };
    const from = this.#hasTiers()
      ? await this.#addSums(books, { add }, signal)
      : hourStart(Math.min(...books.map(({ since }) => since)));
    if (from === undefined) return undefined;
    const { ledger, isCharged, clock } = this.#options;
    const to = nextDay(nextDay(clock.now()));
    for await (const { sequence, event } of ledger.scan(from, to, signal)) {
      if (sequence <= this.#position && isCharged(event.metric)) add(event);
    }
    await this.#write(books);
    for (const book of books) this.#addBook(book);
    return books;
  }

  /** Writes the books every five minutes, or at once with `isNow`. */
  async save(pricesOf: PricesOf, isNow = false): Promise<void> {
    const { ledger, clock } = this.#options;
    if (this.#books.size === 0 || (!isNow && clock.monotonic() - this.#savedAt < SAVE_MS)) return;
    const slice = new TimeSlice(clock);
    const { horizon } = ledger.stats();
    for (const book of this.#unsaved) {
      book.fold(clock.now(), horizon, pricesOf);
      if (slice.isOver) await slice.next();
    }
    await this.#write([]);
  }

  /**
   * Writes changed and new books in one transaction with the sequence number of the last event that
   * all of them contain.
   */
  async #write(news: readonly PrepaidBook[]): Promise<void> {
    const { ledger, clock } = this.#options;
    const slice = new TimeSlice(clock);
    const records: RecordChange[] = [];
    for (const book of [...this.#unsaved, ...news]) {
      records.push(bookRecord(book));
      if (slice.isOver) await slice.next();
    }
    const outcome = await ledger.commitCursor(PREPAID_CURSOR, this.#position, { records });
    if (outcome.kind === 'failed') throw new Error(outcome.message);
    this.#savedAt = clock.monotonic();
    this.#unsaved.clear();
  }

  /**
   * Adds the hours of the month before the books began, which fill tiers. Then all books contain
   * the events of these sums. Returns the time from which events must still be read; undefined
   * while the sums are unknown.
   */
  async #addSums(
    books: readonly PrepaidBook[],
    sums: { readonly add: (item: UsageItem) => true },
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { totals, isCharged } = this.#options;
    const since = Math.min(...books.map((book) => book.since));
    const to = hourStart(since);
    const from = monthOf(since);
    const tenants = new Set(books.map(({ tenant }) => tenant));
    const outcome = await totals()?.addTo(sums, {
      range: { from, to },
      filter: ({ tenant, metric }) => tenants.has(tenant) && isCharged(metric),
      hourly: true,
      signal,
    });
    if (outcome?.kind !== 'added' || outcome.head === undefined) return undefined;
    await this.follow(outcome.head);
    return this.#position === outcome.head ? to : undefined;
  }

  #hasTiers(): boolean {
    const { books } = this.#options.settings.current().pricing;
    return books.some(({ prices }) =>
      prices.some(({ rates }) =>
        rates.some(({ charge }) => charge !== undefined && dependsOnMonth(charge)),
      ),
    );
  }

  #bookless(): readonly Credited[] {
    return [...this.#credited].flatMap(([name, credited]) =>
      this.#books.has(name) || this.#damaged.has(BOOK_PREFIX + name) ? [] : [credited],
    );
  }

  #addBook(book: PrepaidBook): void {
    this.#books.set(nameOf(book), book);
    this.#byTenant.set(book.tenant, [...(this.#byTenant.get(book.tenant) ?? []), book]);
  }
}

/** The part of the record key after the prefix. */
function nameOf({ tenant, counts }: { tenant: string; counts: BudgetCounts }): string {
  return `${encodeURIComponent(tenant)}/${unitText({ counts })}`;
}
