import type { SettingsStore } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import { type Ledger, LedgerReadError } from '../ledger/ledger.ts';
import type { BudgetCounts } from '../model/budget.ts';
import { errorText } from '../model/error-text.ts';
import { least } from '../model/extremes.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Turn } from '../telemetry/turn.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import type { Collector } from '../windows/collector.ts';
import type { LiveCharge } from './account.ts';
import { tenantsByNamespace } from './budget-of.ts';
import type { Credits } from './credits.ts';
import type { BudgetGate } from './gate.ts';
import { liveCharge } from './live.ts';
import {
  type AccountSources,
  type KeptBudget,
  makeAccounts,
  prepaidAccount,
  tenantsText,
} from './make-accounts.ts';
import type { PrepaidBalances } from './prepaid.ts';
import { type BudgetStanding, standingOf } from './standing.ts';
import { unitText } from './unit.ts';

export interface BudgetKeeperOptions extends AccountSources {
  readonly ledger: Pick<Ledger, 'head' | 'read' | 'changed' | 'records'>;
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly discovery: Pick<Discovery, 'known' | 'clusters' | 'tenants' | 'subscribe'>;
  readonly windows: Pick<Collector, 'live' | 'closedUntil' | 'closedHead'>;
  readonly credits: Pick<Credits, 'subscribe'>;
  readonly prepaid: PrepaidBalances;
  /** Acts on what the accounts come to. */
  readonly gate: BudgetGate;
  /** False while prices have not been read. */
  readonly pricesKnown: () => boolean;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'warn'>;
}

/** Keeps an account of what each tenant with a budget has used of it (docs/budgets.md). */
export interface BudgetKeeper {
  /** Every tenant that has a budget and whose account is made, as it stands now: of all, or of one TenantOverride. */
  list(override?: string): readonly BudgetStanding[];
  /** That of one tenant; undefined where it has none, and where its account is not made yet. */
  of(tenant: string): BudgetStanding | undefined;
  /**
   * What a tenant has used since it was first credited in this unit, in the units of a budget; undefined while that is not
   * known.
   */
  prepaidUsed(tenant: string, counts: BudgetCounts): bigint | undefined;
  /** What a tenant's prepaid budget counts; undefined where it has none. */
  prepaidCounts(tenant: string): BudgetCounts | undefined;
  /** Something in a namespace of this cluster has come, changed or gone. */
  changed(namespace: string): void;
  /** Keeps accounts until the signal is aborted. Never rejects: what fails is tried again. */
  run(signal: AbortSignal): Promise<void>;
}

/** Changes of a moment are measured together. */
const GATHER_MS = 250;
const RETRY_MS = 1_000;
/** A change of plan is on record by then. */
const PLANS_RECORDED_MS = 15_000;
/** Timers hold no longer delays, and clocks are set. */
const LONGEST_SLEEP_MS = 60_000;
const PAGE_EVENTS = 2_000;
const TENANTS_AT_ONCE = 20;

export function createBudgetKeeper(options: BudgetKeeperOptions): BudgetKeeper {
  return new LiveBudgetKeeper(options);
}

class LiveBudgetKeeper implements BudgetKeeper {
  readonly #options: BudgetKeeperOptions;
  #kept = new Map<string, KeptBudget>();
  /** What the accounts were made by; another one makes them anew. */
  #madeBy: string | undefined;
  /** The prices and budgets that they were made by. */
  #pricing: unknown;
  #overrides: unknown;
  /** Who is never suspended. */
  #enforcement: unknown;
  /** False where tenants may have changed since. */
  #isLookedAt = false;
  #remakeAt = Number.POSITIVE_INFINITY;
  /** The last event that the accounts have. */
  #position = 0;
  /** Up to where windows were closed when the accounts last heard of it, by scope. */
  #closedUntil: ReadonlyMap<string, number> = new Map();
  #pricesOf: PricesOf = () => undefined;
  #isLoaded = false;
  /** Whose credits are to be looked at. */
  readonly #credited = new Set<string>();
  #tenantsIn: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  readonly #dirty = new Set<string>();
  #wake = new AbortController();
  #lastFailure = '';

  constructor(options: BudgetKeeperOptions) {
    this.#options = options;
  }

  list(override?: string): readonly BudgetStanding[] {
    const { clock, gate } = this.#options;
    const now = clock.now();
    return [...this.#kept].flatMap(([tenant, kept]) => {
      if (override !== undefined && kept.override !== override) return [];
      return [standingOf({ tenant, ...kept, state: gate.stateOf(tenant) }, now)];
    });
  }

  of(tenant: string): BudgetStanding | undefined {
    const { clock, gate } = this.#options;
    const kept = this.#kept.get(tenant);
    const state = gate.stateOf(tenant);
    return kept && standingOf({ tenant, ...kept, state }, clock.now());
  }

  prepaidUsed(tenant: string, counts: BudgetCounts): bigint | undefined {
    if (this.#madeBy === undefined) return undefined;
    const { clock, prepaid } = this.#options;
    const kept = this.#balanceIn(tenant, counts);
    const account =
      kept !== undefined && Number.isFinite(kept.period.from)
        ? kept.account
        : prepaid.book(tenant, counts)?.account(this.#pricesOf);
    return account?.usedAt(clock.now()) ?? 0n;
  }

  prepaidCounts(tenant: string): BudgetCounts | undefined {
    const budget = this.#kept.get(tenant)?.budget;
    return budget?.period.kind === 'prepaid' ? budget.counts : undefined;
  }

  changed(namespace: string): void {
    const tenants = this.#tenantsIn.get(namespace);
    if (tenants === undefined) return;
    for (const tenant of tenants) this.#dirty.add(tenant);
    this.#wake.abort();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { discovery, settings, credits, prepaid, clock, gate } = this.#options;
    const look = (): void => {
      this.#isLookedAt = false;
      this.#wake.abort();
    };
    const credited = (tenant: string): void => {
      this.#credited.add(tenant);
      this.#wake.abort();
    };
    const endings = [
      discovery.subscribe(look),
      settings.subscribe(look),
      credits.subscribe(credited),
    ];
    const beside = Promise.all([this.#followHead(signal), gate.run(signal)]);
    while (!signal.aborted) {
      const pauseMs = await this.#tryRound(signal);
      await clock.sleep(GATHER_MS, signal).catch(() => undefined);
      const either = AbortSignal.any([signal, this.#wake.signal]);
      await clock.sleep(pauseMs, either).catch(() => undefined);
      if (this.#wake.signal.aborted) this.#wake = new AbortController();
    }
    for (const end of endings) end();
    await beside;
    // Whatever fails here is read once more by the next process.
    if (this.#isLoaded) await prepaid.save(this.#pricesOf, true).catch(() => undefined);
  }

  async #followHead(signal: AbortSignal): Promise<void> {
    const { ledger, clock } = this.#options;
    let seen = ledger.head();
    while (!signal.aborted) {
      // Rejects where the ledger cannot be read, too; the round says so.
      await ledger
        .changed(seen, signal)
        .catch(() => clock.sleep(RETRY_MS, signal))
        .catch(() => undefined);
      seen = ledger.head();
      this.#wake.abort();
    }
  }

  /** How long nothing is to be done unless something wakes. */
  async #tryRound(signal: AbortSignal): Promise<number> {
    try {
      const pauseMs = await this.#round(signal);
      this.#lastFailure = '';
      return pauseMs;
    } catch (error) {
      if (signal.aborted) return 0;
      const failure = errorText(error);
      if (failure !== this.#lastFailure) {
        this.#options.logger.warn(`[budgets] budgets are not counted: ${failure}`);
      }
      this.#lastFailure = failure;
      return RETRY_MS;
    }
  }

  async #round(signal: AbortSignal): Promise<number> {
    const { discovery, pricesKnown, prepaid, clock, gate } = this.#options;
    if (!discovery.known() || !pricesKnown()) return RETRY_MS;
    if (!this.#isLoaded) await prepaid.load();
    this.#isLoaded = true;
    await this.#lookAtCredits();
    if (this.#isOutdated()) {
      if (!(await this.#remake(signal))) return RETRY_MS;
    } else {
      await this.#follow();
    }
    const isOpen = await this.#openBooks(signal);
    const isMeasured = (await this.#measure(signal)) && isOpen;
    await this.#judge();
    await prepaid.save(this.#pricesOf);
    const ends = least([...this.#kept.values()].map(({ period }) => period.to));
    const wait = Math.min(ends, this.#remakeAt, gate.nextAt) - GATHER_MS - clock.now();
    return Math.max(0, Math.min(wait, isMeasured ? LONGEST_SLEEP_MS : RETRY_MS));
  }

  async #lookAtCredits(): Promise<void> {
    const { prepaid, gate } = this.#options;
    for (const tenant of this.#credited) {
      // Before the look, so that a credit that comes during it has another one.
      this.#credited.delete(tenant);
      try {
        await prepaid.look(tenant);
      } catch (error) {
        this.#credited.add(tenant);
        throw error;
      }
      const kept = this.#kept.get(tenant);
      if (kept?.budget.period.kind !== 'prepaid') continue;
      const credited = prepaid.credited(tenant, kept.budget.counts);
      this.#kept.set(tenant, { ...kept, credited });
      gate.reset([tenant]);
    }
  }

  /** A tenant's prepaid budget, where it counts in this unit. */
  #balanceIn(tenant: string, counts: BudgetCounts): KeptBudget | undefined {
    const kept = this.#kept.get(tenant);
    if (kept?.budget.period.kind !== 'prepaid') return undefined;
    return unitText(kept.budget) === unitText({ counts }) ? kept : undefined;
  }

  /** Begins to count for whoever was credited for the first time; false where that cannot be done yet. */
  async #openBooks(signal: AbortSignal): Promise<boolean> {
    const { prepaid } = this.#options;
    const opened = await prepaid.open(signal);
    for (const { tenant, counts } of opened ?? []) {
      const given = this.#balanceIn(tenant, counts);
      if (given === undefined) continue;
      const { budget, override } = given;
      const from = { tenant, given: { budget, ...omitUndefined({ override }) } };
      const kept = prepaidAccount(prepaid, { ...from, pricesOf: this.#pricesOf });
      this.#kept.set(tenant, kept);
      this.#dirty.add(tenant);
    }
    return opened !== undefined;
  }

  /** What is not measured yet is judged when it is: until then a window may count twice, or not at all. */
  async #judge(): Promise<void> {
    const { gate, windows, clock } = this.#options;
    const due = gate.due(this.#kept, clock.now());
    await gate.judge({
      kept: this.#kept,
      tenants: due.filter((tenant) => !this.#dirty.has(tenant)),
      isWhole: () => this.#position >= (windows.closedHead() ?? Number.POSITIVE_INFINITY),
    });
  }

  #isOutdated(): boolean {
    const { settings, clock } = this.#options;
    const { pricing, overrides, enforcement } = settings.current();
    const now = clock.now();
    if (this.#pricing !== pricing || this.#overrides !== overrides) return true;
    if (this.#enforcement !== enforcement) return true;
    if (now >= this.#remakeAt) return true;
    if (!this.#isLookedAt && this.#madeBy !== tenantsText(this.#options)) return true;
    this.#isLookedAt = true;
    return [...this.#kept.values()].some(
      ({ budget, period }) =>
        budget.period.kind !== 'prepaid' && (now < period.from || now >= period.to),
    );
  }

  /** Makes all accounts anew; false where that cannot be done yet. */
  async #remake(signal: AbortSignal): Promise<boolean> {
    const { discovery, settings, clock } = this.#options;
    const { pricing, overrides, enforcement } = settings.current();
    const [madeBy, clusters, now] = [tenantsText(this.#options), discovery.clusters(), clock.now()];
    const made = await makeAccounts(this.#options, now, signal);
    if (made === undefined) return false;
    if (this.#madeBy !== undefined && this.#madeBy !== madeBy) {
      this.#remakeAt = now + PLANS_RECORDED_MS;
    } else if (now >= this.#remakeAt) this.#remakeAt = Number.POSITIVE_INFINITY;
    this.#kept = new Map(made.kept);
    this.#pricesOf = made.pricesOf;
    this.#position = made.head;
    this.#madeBy = madeBy;
    this.#pricing = pricing;
    this.#overrides = overrides;
    this.#enforcement = enforcement;
    this.#tenantsIn = tenantsByNamespace(clusters, made.kept);
    this.#dirty.clear();
    for (const tenant of made.kept.keys()) this.#dirty.add(tenant);
    return true;
  }

  /** Adds what has come into the ledger. */
  async #follow(): Promise<void> {
    const { ledger, prepaid, isCharged } = this.#options;
    if (this.#kept.size === 0 && prepaid.isEmpty) {
      this.#position = ledger.head();
      await prepaid.follow(this.#position);
      return;
    }
    for (;;) {
      const page = await ledger.read(this.#position, PAGE_EVENTS);
      if (page.kind === 'failed') throw new LedgerReadError(page);
      if (page.events.length === 0) return;
      // Nothing waits from here on, so that no window counts twice: as what goes on, and as what it came to.
      this.#closeWindows();
      for (const { sequence, event } of page.events) {
        prepaid.add(sequence, event);
        const kept = isCharged(event.metric) ? this.#kept.get(event.tenant) : undefined;
        if (kept === undefined || sequence <= kept.madeOf) continue;
        kept.account.add(event);
        this.#dirty.add(event.tenant);
      }
      this.#position = page.lastSequence;
    }
  }

  /** Where a window has been closed since, what goes on counts from its end on. */
  #closeWindows(): void {
    const ends = this.#options.windows.closedUntil();
    const before = this.#closedUntil;
    if (ends.size === before.size && [...ends].every(([scope, end]) => before.get(scope) === end)) {
      return;
    }
    this.#closedUntil = ends;
    for (const [tenant, { account }] of this.#kept) {
      account.closed((scope) => ends.get(scope));
      // What changes without a watch telling, such as samples of usage, is measured once a window.
      this.#dirty.add(tenant);
    }
  }

  /** Measures what goes on of the tenants of whom something has changed; false where some of that cannot be told yet. */
  async #measure(signal: AbortSignal): Promise<boolean> {
    const turn = new Turn(this.#options.clock);
    const changed = [...this.#dirty];
    for (let next = 0; next < changed.length && !signal.aborted; next += TENANTS_AT_ONCE) {
      const tenants = changed.slice(next, next + TENANTS_AT_ONCE);
      for (const tenant of tenants) this.#dirty.delete(tenant);
      for (const tenant of this.#unmeasured(tenants)) this.#dirty.add(tenant);
      this.#options.gate.reset(tenants);
      if (turn.isOver) await turn.next();
    }
    return changed.every((tenant) => !this.#dirty.has(tenant));
  }

  /**
   * Measures them all together, and where that cannot be done each by itself: what one of them brings, or is not seen of
   * it, costs nobody else an account. Gives those that are to be tried again.
   */
  #unmeasured(tenants: readonly string[]): readonly string[] {
    try {
      if (this.#measureTogether(tenants)) return [];
    } catch {
      // What cannot be measured is not billed either until its window can be closed, and a gap says so.
      if (tenants.length === 1) return [];
    }
    return tenants.length === 1 ? tenants : tenants.flatMap((tenant) => this.#unmeasured([tenant]));
  }

  /** False where some of it has not been listed. */
  #measureTogether(tenants: readonly string[]): boolean {
    const { windows, isCharged } = this.#options;
    const namespaces = [...this.#tenantsIn].flatMap(([namespace, within]) =>
      tenants.some((tenant) => within.has(tenant)) ? [namespace] : [],
    );
    const live = windows.live(new Set(namespaces));
    if (live === undefined) return false;
    const charged = live.filter(({ identity }) => isCharged(identity.metric));
    const byTenant = Map.groupBy(charged, ({ identity }) => identity.tenant);
    for (const tenant of tenants) {
      const places = new Map<string, LiveCharge[]>();
      for (const usage of byTenant.get(tenant) ?? []) {
        const charges = places.get(usage.scope) ?? [];
        places.set(usage.scope, charges);
        charges.push(liveCharge(usage));
      }
      this.#kept.get(tenant)?.account.setAllLive(places);
    }
    return true;
  }
}
