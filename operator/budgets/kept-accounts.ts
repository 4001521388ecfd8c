import type { SettingsStore } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import { type Ledger, LedgerReadError } from '../ledger/ledger.ts';
import type { BudgetCounts } from '../model/budget.ts';
import { greatest, least } from '../model/extremes.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import { tenantsByNamespace } from './budget-of.ts';
import type { Collector } from '../windows/collector.ts';
import type { LiveTracker } from './live-tracker.ts';
import {
  type AccountSources,
  type KeptBudget,
  makeAccounts,
  prepaidAccount,
  tenantsText,
} from './make-accounts.ts';
import type { PrepaidBalances } from './prepaid.ts';
import { unitText } from './unit.ts';

export interface KeptAccountsOptions extends AccountSources {
  readonly ledger: Pick<Ledger, 'head' | 'read' | 'records'>;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly discovery: Pick<Discovery, 'clusters' | 'tenants'>;
  readonly prepaid: PrepaidBalances;
  readonly live: LiveTracker;
  readonly windows: Pick<Collector, 'closedHead'>;
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

/** Taken in without a wait between, so few. */
const PAGE_EVENTS = 500;
/** A change of plan is on record by then. */
const PLANS_RECORDED_MS = 15_000;

/** The accounts of all tenants that have a budget: made of the ledger, and kept up with it. One call at a time. */
export class KeptAccounts {
  readonly #options: KeptAccountsOptions;
  #kept = new Map<string, KeptBudget>();
  #madeBy: MadeBy | undefined;
  #remakeAt = Number.POSITIVE_INFINITY;
  /** The last event that the accounts have. */
  #position = 0;
  #pricesOf: PricesOf = () => undefined;

  constructor(options: KeptAccountsOptions) {
    this.#options = options;
  }

  /** By tenant. */
  get kept(): ReadonlyMap<string, KeptBudget> {
    return this.#kept;
  }

  get areMade(): boolean {
    return this.#madeBy !== undefined;
  }

  /** Whether they have every window that is closed. */
  get areWhole(): boolean {
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
    const { discovery, live } = this.#options;
    const [tenants, settings] = [tenantsText(this.#options), this.#settings()];
    const clusters = discovery.clusters();
    const made = await makeAccounts(this.#options, now, signal);
    // What is new may be of the window that is on its way.
    if (made === undefined || (this.#isClosing && made.head > this.#position)) return false;
    const before = this.#madeBy;
    if (before !== undefined && before.tenants !== tenants) {
      this.#remakeAt = now + PLANS_RECORDED_MS;
    } else if (now >= this.#remakeAt) this.#remakeAt = Number.POSITIVE_INFINITY;
    this.#kept = new Map(made.kept);
    this.#pricesOf = made.pricesOf;
    this.#position = made.head;
    // A prepaid balance has no period that ends.
    const periods = [...made.kept.values()].flatMap(({ budget, period }) =>
      budget.period.kind === 'prepaid' ? [] : [period],
    );
    const from = greatest(periods.map((period) => period.from));
    this.#madeBy = { tenants, settings, from, to: least(periods.map(({ to }) => to)) };
    const froms = [...made.kept].map(([tenant, { period }]) => [tenant, period.from] as const);
    live.track(tenantsByNamespace(clusters, made.kept), new Map(froms));
    if (!this.#isClosing) live.close();
    for (const [tenant, { account }] of made.kept) live.tell(tenant, account, true);
    return true;
  }

  /**
   * Adds what has come into the ledger, but for what comes while a window is on its way there. Gives of whom that changes
   * anything. Throws where the ledger cannot be read.
   */
  async follow(): Promise<ReadonlySet<string>> {
    const { ledger, prepaid, live, isCharged } = this.#options;
    const touched = new Set<string>();
    if (this.#kept.size === 0 && prepaid.isEmpty) {
      this.#position = ledger.head();
      await prepaid.follow(this.#position);
      return touched;
    }
    while (this.#position < ledger.head()) {
      const page = await ledger.read(this.#position, PAGE_EVENTS);
      if (page.kind === 'failed') throw new LedgerReadError(page);
      if (page.events.length === 0 || this.#isClosing) break;
      // Nothing waits from here on, so that no window counts twice: as what goes on, and as what it came to.
      for (const tenant of live.close()) touched.add(tenant);
      for (const { sequence, event } of page.events) {
        prepaid.add(sequence, event);
        const kept = isCharged(event.metric) ? this.#kept.get(event.tenant) : undefined;
        if (kept === undefined || sequence <= kept.madeOf) continue;
        live.tell(event.tenant, kept.account);
        kept.account.add(event);
        touched.add(event.tenant);
      }
      this.#position = page.lastSequence;
    }
    // A window in which nothing was used adds nothing.
    if (this.areWhole) for (const tenant of live.close()) touched.add(tenant);
    return touched;
  }

  /** Looks at a tenant's credits once more. Throws where they cannot be read. */
  async lookAtCredits(tenant: string): Promise<void> {
    const { prepaid } = this.#options;
    await prepaid.look(tenant);
    const kept = this.#kept.get(tenant);
    if (kept?.budget.period.kind !== 'prepaid') return;
    this.#kept.set(tenant, { ...kept, credited: prepaid.credited(tenant, kept.budget.counts) });
  }

  /** Begins to count for whoever was credited for the first time. Gives who has another account; undefined where that cannot be done yet. */
  async openBooks(signal: AbortSignal): Promise<readonly string[] | undefined> {
    const { prepaid, live } = this.#options;
    const opened = await prepaid.open(signal);
    const credited = opened?.flatMap(({ tenant, counts }) => {
      const given = this.balanceIn(tenant, counts);
      if (given === undefined) return [];
      const { budget, override } = given;
      const from = { tenant, given: { budget, ...omitUndefined({ override }) } };
      const kept = prepaidAccount(prepaid, { ...from, pricesOf: this.#pricesOf });
      this.#kept.set(tenant, kept);
      live.countFrom(tenant, kept.period.from);
      live.tell(tenant, kept.account, true);
      return [tenant];
    });
    // Books may have what the other accounts do not have yet.
    return credited && [...credited, ...(await this.follow())];
  }

  /** A tenant's prepaid budget, where it counts in this unit. */
  balanceIn(tenant: string, counts: BudgetCounts): KeptBudget | undefined {
    const kept = this.#kept.get(tenant);
    if (kept?.budget.period.kind !== 'prepaid') return undefined;
    return unitText(kept.budget) === unitText({ counts }) ? kept : undefined;
  }

  /** Until the ledger has what a window came to, that goes on. */
  get #isClosing(): boolean {
    return this.#options.windows.closedHead() === undefined;
  }

  #settings(): readonly unknown[] {
    const { pricing, overrides, enforcement } = this.#options.settings.current();
    return [pricing, overrides, enforcement];
  }
}
