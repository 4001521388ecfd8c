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
import { monthOf, nextDay } from './period.ts';
import { PrepaidBook } from './prepaid-book.ts';
import { unitText } from './unit.ts';

export interface PrepaidOptions {
  readonly ledger: Pick<
    Ledger,
    'head' | 'read' | 'scan' | 'records' | 'cursors' | 'commitCursor' | 'stats'
  >;
  readonly credits: Pick<Credits, 'list'>;
  /** Undefined while they are not open. */
  readonly totals: () => Pick<UsageTotals, 'addTo'> | undefined;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly isCharged: (metric: string) => boolean;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'error'>;
}

const HOUR_MS = 3_600_000;
const PAGE_EVENTS = 2_000;
/** What came since is read once more after a kill. */
const SAVE_MS = 300_000;

/**
 * What tenants were credited with, and what they have used since. Each event is in a book once, whatever is killed when:
 * books and the number of the last event that they have are written as one. One call at a time.
 */
export class PrepaidBalances {
  readonly #options: PrepaidOptions;
  readonly #books = new Map<string, PrepaidBook>();
  readonly #byTenant = new Map<string, PrepaidBook[]>();
  readonly #credited = new Map<string, Credited>();
  /** Whose records cannot be read: nothing is told of them. */
  readonly #damaged = new Set<string>();
  /** Books that have what their records lack. */
  readonly #unsaved = new Set<PrepaidBook>();
  /** The last event that the books have. */
  #position = 0;
  #savedAt = Number.NEGATIVE_INFINITY;

  constructor(options: PrepaidOptions) {
    this.#options = options;
  }

  /** The last event that the books have. */
  get position(): number {
    return this.#position;
  }

  /** Whether nobody was ever credited. */
  get isEmpty(): boolean {
    return this.#books.size === 0;
  }

  /** Reads what earlier processes have recorded. Throws where that cannot be. */
  async load(): Promise<void> {
    const { ledger, credits, logger } = this.#options;
    for (const known of [this.#books, this.#byTenant, this.#credited, this.#damaged]) known.clear();
    for (const sum of await sumCredits(credits.list())) this.#credited.set(nameOf(sum), sum);
    const cursor = ledger.cursors().find(({ destination }) => destination === PREPAID_CURSOR);
    for await (const [key, text] of ledger.records(BOOK_PREFIX)) {
      const book = cursor === undefined ? undefined : parseBook(text);
      if (book !== undefined) this.#keep(book);
      else {
        logger.error(`[budgets] damaged record, nobody is judged by it: ${key}: ${quote(text)}`);
        this.#damaged.add(key);
      }
    }
    this.#position = cursor?.sequence ?? ledger.head();
  }

  /** Looks at a tenant's credits once more. */
  async refreshCredits(tenant: string): Promise<void> {
    for (const sum of await sumCredits(this.#options.credits.list(tenant))) {
      this.#credited.set(nameOf(sum), sum);
    }
  }

  /** What a tenant was credited with, in the units of a budget. */
  credited(tenant: string, counts: BudgetCounts): bigint {
    return this.#credited.get(nameOf({ tenant, counts }))?.amount ?? 0n;
  }

  book(tenant: string, counts: BudgetCounts): PrepaidBook | undefined {
    return this.#books.get(nameOf({ tenant, counts }));
  }

  /** Takes in an event, once: those that it has are passed over. */
  add(sequence: number, event: UsageEvent): void {
    if (sequence <= this.#position) return;
    this.#position = sequence;
    const books = this.#byTenant.get(event.tenant);
    if (books === undefined || !this.#options.isCharged(event.metric)) return;
    for (const book of books) if (book.add(event)) this.#unsaved.add(book);
  }

  /** Takes in what the ledger has, up to an event. */
  async follow(until: number): Promise<void> {
    const { ledger } = this.#options;
    // Nothing is to be added up where nobody was credited.
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
   * Begins books for what was credited and has none, with what the ledger has of their time already. Gives whose they
   * are; undefined where that cannot be told yet.
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
      : Math.min(...books.map(({ since }) => since));
    if (from === undefined) return undefined;
    const { ledger, isCharged, clock } = this.#options;
    const to = nextDay(nextDay(clock.now()));
    for await (const { sequence, event } of ledger.scan(from, to, signal)) {
      if (sequence <= this.#position && isCharged(event.metric)) add(event);
    }
    await this.#write(books);
    for (const book of books) this.#keep(book);
    return books;
  }

  /** Writes what has been used, now and then, or at once. */
  async save(pricesOf: PricesOf, isNow = false): Promise<void> {
    const { ledger, clock } = this.#options;
    if (this.#books.size === 0 || (!isNow && clock.monotonic() - this.#savedAt < SAVE_MS)) return;
    const turn = new TimeSlice(clock);
    const { horizon } = ledger.stats();
    for (const book of this.#unsaved) {
      book.fold(clock.now(), horizon, pricesOf);
      if (turn.isOver) await turn.next();
    }
    await this.#write([]);
  }

  /** As one unit: books that have something new, and the last event that all of them have. */
  async #write(news: readonly PrepaidBook[]): Promise<void> {
    const { ledger, clock } = this.#options;
    const turn = new TimeSlice(clock);
    const records: RecordChange[] = [];
    for (const book of [...this.#unsaved, ...news]) {
      records.push(bookRecord(book));
      if (turn.isOver) await turn.next();
    }
    const outcome = await ledger.commitCursor(PREPAID_CURSOR, this.#position, { records });
    if (outcome.kind === 'failed') throw new Error(outcome.message);
    this.#savedAt = clock.monotonic();
    this.#unsaved.clear();
  }

  /**
   * Adds the hours of the month before the books began, which fill tiers. All books then have the events that these sums
   * are of. Gives from where on the rest is to be read.
   */
  async #addSums(
    books: readonly PrepaidBook[],
    sums: { readonly add: (item: UsageItem) => true },
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { totals, isCharged } = this.#options;
    const since = Math.min(...books.map((book) => book.since));
    const to = Math.floor(since / HOUR_MS) * HOUR_MS;
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

  #keep(book: PrepaidBook): void {
    this.#books.set(nameOf(book), book);
    this.#byTenant.set(book.tenant, [...(this.#byTenant.get(book.tenant) ?? []), book]);
  }
}

/** As records are named. */
function nameOf({ tenant, counts }: { tenant: string; counts: BudgetCounts }): string {
  return `${encodeURIComponent(tenant)}/${unitText({ counts })}`;
}
