import type { SettingsStore } from '../../settings/settings.ts';
import type { Discovery } from '../../discovery/discovery.ts';
import { type Ledger, LedgerReadError, type StoredEvent } from '../../ledger/ledger.ts';
import type { BudgetCounts } from '../../model/budget.ts';
import { greatest, least } from '../../model/extremes.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { Collector } from '../../metering/windows/collector.ts';
import {
  type AccountSources,
  type StoredBudget,
  makeAccounts,
  prepaidAccount,
  tenantsText,
} from './make-accounts.ts';
import { NewestWindows } from './newest-windows.ts';
import type { PrepaidBalances } from './prepaid.ts';
import { unitText } from './unit.ts';

export interface StoredAccountsOptions extends AccountSources {
  readonly ledger: Pick<Ledger, 'head' | 'read' | 'scan' | 'records'>;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly discovery: Pick<Discovery, 'clusters' | 'tenants'>;
  readonly prepaid: PrepaidBalances;
  readonly windows: Pick<Collector, 'closedHead' | 'closedUntil' | 'lastWindow'>;
}

/** What the accounts were made by; others make them anew. */
interface MadeBy {
  /** What of tenants accounts depend on. */
  readonly tenants: string;
  /** The prices and budgets, and who is never suspended. */
  readonly settings: readonly unknown[];
  /** From when until when all of them are of the period that it is, milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

/** Added without a wait between, so few. */
const PAGE_EVENTS = 500;
/** A change of plan is on record by then. */
const PLANS_RECORDED_MS = 15_000;

/** The accounts of all tenants that have a budget: made of the ledger, and stored up with it. One call at a time. */
export class StoredAccounts {
  readonly #options: StoredAccountsOptions;
  #stored = new Map<string, StoredBudget>();
  #madeBy: MadeBy | undefined;
  #remakeAt = Number.POSITIVE_INFINITY;
  /** The last event that the accounts have. */
  #position = 0;
  #pricesOf: PricesOf = () => undefined;
  readonly #newest = new NewestWindows();

  constructor(options: StoredAccountsOptions) {
    this.#options = options;
  }

  /** By tenant. */
  get stored(): ReadonlyMap<string, StoredBudget> {
    return this.#stored;
  }

  get areMade(): boolean {
    return this.#madeBy !== undefined;
  }

  /** Whether they have every window that is closed: false while some are on their way into the ledger. */
  get areComplete(): boolean {
    const head = this.#options.windows.closedHead();
    return head !== undefined && this.#position >= head;
  }

  /** The prices that the accounts were made by. */
  get pricesOf(): PricesOf {
    return this.#pricesOf;
  }

  /** When they are to be made anew if nothing changes; `Infinity` where they are not. */
  get outdatedAt(): number {
    return Math.min(this.#madeBy?.to ?? Number.POSITIVE_INFINITY, this.#remakeAt);
  }

  /** Whether something has changed that they are made by; tenants are looked at where they may have, since it takes a while. */
  isOutdated(now: number, mayTenantsDiffer: boolean): boolean {
    const madeBy = this.#madeBy;
    if (madeBy === undefined || now < madeBy.from || now >= this.outdatedAt) return true;
    if (!this.#settings().every((part, index) => part === madeBy.settings[index])) return true;
    return mayTenantsDiffer && madeBy.tenants !== tenantsText(this.#options);
  }

  /** Makes all accounts anew; false where that cannot be done yet. */
  async remake(now: number, signal: AbortSignal): Promise<boolean> {
    const [tenants, settings] = [tenantsText(this.#options), this.#settings()];
    const made = await makeAccounts(this.#options, now, signal);
    if (made === undefined) return false;
    await this.#readNewest(signal);
    const before = this.#madeBy;
    if (before !== undefined && before.tenants !== tenants) {
      this.#remakeAt = now + PLANS_RECORDED_MS;
    } else if (now >= this.#remakeAt) this.#remakeAt = Number.POSITIVE_INFINITY;
    this.#stored = new Map(made.stored);
    this.#pricesOf = made.pricesOf;
    this.#position = made.head;
    // A prepaid balance has no period that ends.
    const periods = [...made.stored.values()].flatMap(({ budget, period }) =>
      budget.period.kind === 'prepaid' ? [] : [period],
    );
    const from = greatest(periods.map((period) => period.from));
    this.#madeBy = { tenants, settings, from, to: least(periods.map(({ to }) => to)) };
    for (const tenant of made.stored.keys()) this.#expect(tenant);
    return true;
  }

  /**
   * Adds what has come into the ledger. Returns the tenants that it changes.
   * Throws where the ledger cannot be read.
   */
  async follow(): Promise<ReadonlySet<string>> {
    const { ledger, prepaid, windows } = this.#options;
    const touched = new Set<string>();
    if (this.#stored.size === 0 && prepaid.isEmpty) {
      this.#position = ledger.head();
      await prepaid.follow(this.#position);
      return touched;
    }
    while (this.#position < ledger.head()) {
      const page = await ledger.read(this.#position, PAGE_EVENTS);
      if (page.kind === 'failed') throw new LedgerReadError(page);
      if (page.events.length === 0) break;
      for (const tenant of this.#add(page.events)) touched.add(tenant);
      this.#position = page.lastSequence;
    }
    for (const tenant of this.#newest.closed(windows.closedUntil())) touched.add(tenant);
    for (const tenant of touched) this.#expect(tenant);
    return touched;
  }

  /** Reads the newest window again: accounts that are made of sums have its events and do not read them. */
  async #readNewest(signal: AbortSignal): Promise<void> {
    const { ledger, windows, isCharged } = this.#options;
    if (windows.lastWindow === undefined) return;
    const { start, end } = windows.lastWindow;
    for await (const stored of ledger.scan(start, end, signal)) {
      if (isCharged(stored.event.metric)) this.#newest.add(stored);
    }
  }

  /** Returns the tenants whose account has something new. */
  #add(events: readonly StoredEvent[]): ReadonlySet<string> {
    const { prepaid, isCharged } = this.#options;
    const touched = new Set<string>();
    for (const stored of events) {
      const { sequence, event } = stored;
      prepaid.add(sequence, event);
      if (!isCharged(event.metric)) continue;
      this.#newest.add(stored);
      const budget = this.#stored.get(event.tenant);
      if (budget === undefined || sequence <= budget.madeOf) continue;
      budget.account.add(event);
      touched.add(event.tenant);
    }
    return touched;
  }

  #expect(tenant: string): void {
    this.#stored.get(tenant)?.account.setOngoing(this.#newest.of(tenant));
  }

  /** Looks at a tenant's credits once more. Throws where they cannot be read. */
  async readCredits(tenant: string): Promise<void> {
    const { prepaid } = this.#options;
    await prepaid.refreshCredits(tenant);
    const stored = this.#stored.get(tenant);
    if (stored?.budget.period.kind !== 'prepaid') return;
    this.#stored.set(tenant, {
      ...stored,
      credited: prepaid.credited(tenant, stored.budget.counts),
    });
  }

  /** Begins to count for whoever was credited for the first time. Gives who has another account; undefined where that cannot be done yet. */
  async openBooks(signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { prepaid } = this.#options;
    const opened = await prepaid.open(signal);
    const credited = opened?.flatMap(({ tenant, counts }) => {
      const given = this.balanceIn(tenant, counts);
      if (given === undefined) return [];
      const { budget, override } = given;
      const from = { tenant, given: { budget, override } };
      this.#stored.set(tenant, prepaidAccount(prepaid, { ...from, pricesOf: this.#pricesOf }));
      this.#expect(tenant);
      return [tenant];
    });
    // Books may have what the other accounts do not have yet.
    return credited && [...credited, ...(await this.follow())];
  }

  /** A tenant's prepaid budget, where it counts in this unit. */
  balanceIn(tenant: string, counts: BudgetCounts): StoredBudget | undefined {
    const stored = this.#stored.get(tenant);
    if (stored?.budget.period.kind !== 'prepaid') return undefined;
    return unitText(stored.budget) === unitText({ counts }) ? stored : undefined;
  }

  #settings(): readonly unknown[] {
    const { pricing, overrides, enforcement } = this.#options.settings.current();
    return [pricing, overrides, enforcement];
  }
}
