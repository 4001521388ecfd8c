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

/** The inputs of the current accounts. When one changes, all accounts are rebuilt. */
interface MadeBy {
  /** The fields of tenants that accounts depend on ({@link tenantsText}). */
  readonly tenants: string;
  /** Prices, budgets, and the tenants that are never suspended. */
  readonly settings: readonly unknown[];
  /** The time in which every account is of its current period, milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

/** Few enough to add in one go without blocking the process. */
const PAGE_EVENTS = 500;
/** The ledger has a change of plan by then. */
const PLANS_RECORDED_MS = 15_000;

/**
 * The accounts of all tenants that have a budget. Builds them from the ledger and keeps them up to
 * date with it. Callers make one call at a time.
 */
export class StoredAccounts {
  readonly #options;
  #stored = new Map<string, StoredBudget>();
  #madeBy: MadeBy | undefined;
  #remakeAt = Number.POSITIVE_INFINITY;
  /** The sequence number of the last event that the accounts contain. */
  #position = 0;
  #pricesOf: PricesOf = () => undefined;
  readonly #newest = new NewestWindows();

  constructor(
    options: AccountSources & {
      readonly ledger: Pick<Ledger, 'head' | 'read' | 'scan' | 'records'>;
      readonly settings: Pick<SettingsStore, 'current'>;
      readonly discovery: Pick<Discovery, 'clusters' | 'tenants'>;
      readonly prepaid: PrepaidBalances;
      readonly windows: Pick<Collector, 'closedHead' | 'closedUntil' | 'lastWindow'>;
    },
  ) {
    this.#options = options;
  }

  get stored(): ReadonlyMap<string, StoredBudget> {
    return this.#stored;
  }

  /** The sequence number of the last event that all accounts contain. */
  get position(): number {
    return this.#position;
  }

  get areMade(): boolean {
    return this.#madeBy !== undefined;
  }

  /**
   * True when the accounts contain every closed window; false while events of one are on their way
   * into the ledger.
   */
  get areComplete(): boolean {
    const head = this.#options.windows.closedHead();
    return head !== undefined && this.#position >= head;
  }

  /** The prices that the accounts were built with. */
  get pricesOf(): PricesOf {
    return this.#pricesOf;
  }

  /** When the accounts must be rebuilt if nothing changes; `Infinity` when never. */
  get outdatedAt(): number {
    return Math.min(this.#madeBy?.to ?? Number.POSITIVE_INFINITY, this.#remakeAt);
  }

  /**
   * Returns true when an input of the accounts has changed. Comparing the tenants is slow, so it
   * happens only with `mayTenantsDiffer`.
   */
  isOutdated(now: number, mayTenantsDiffer: boolean): boolean {
    const madeBy = this.#madeBy;
    if (madeBy === undefined || now < madeBy.from || now >= this.outdatedAt) return true;
    if (!this.#settings().every((part, index) => part === madeBy.settings[index])) return true;
    return mayTenantsDiffer && madeBy.tenants !== tenantsText(this.#options);
  }

  /** Rebuilds all accounts from the ledger. Returns false while that is impossible. */
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
    for (const tenant of made.stored.keys()) this.#setOngoing(tenant);
    return true;
  }

  /**
   * Adds the new events of the ledger. Returns the tenants whose accounts change. Throws when the
   * ledger cannot be read.
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
    for (const tenant of touched) this.#setOngoing(tenant);
    return touched;
  }

  /**
   * Reads the newest window again: accounts that are built from sums contain its events without
   * having read them.
   */
  async #readNewest(signal: AbortSignal): Promise<void> {
    const { ledger, windows, isCharged } = this.#options;
    if (windows.lastWindow === undefined) return;
    const { start, end } = windows.lastWindow;
    for await (const stored of ledger.scan(start, end, signal)) {
      if (isCharged(stored.event.metric)) this.#newest.add(stored);
    }
  }

  /** Returns the tenants whose accounts have new usage. */
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

  #setOngoing(tenant: string): void {
    this.#stored.get(tenant)?.account.setOngoing(this.#newest.of(tenant));
  }

  /** Reads a tenant's credits again. Throws when they cannot be read. */
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

  /**
   * Opens books for tenants with a first credit. Returns the tenants whose accounts change;
   * undefined while that is impossible.
   */
  async openBooks(signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { prepaid } = this.#options;
    const opened = await prepaid.open(signal);
    const credited = opened?.flatMap(({ tenant, counts }) => {
      const given = this.balanceIn(tenant, counts);
      if (given === undefined) return [];
      const { budget, override } = given;
      const from = { tenant, given: { budget, override } };
      this.#stored.set(tenant, prepaidAccount(prepaid, { ...from, pricesOf: this.#pricesOf }));
      this.#setOngoing(tenant);
      return [tenant];
    });
    // The books may contain events that the other accounts lack.
    return credited && [...credited, ...(await this.follow())];
  }

  /** A tenant's prepaid budget if it counts in this unit. */
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
