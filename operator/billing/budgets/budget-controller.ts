import type { SettingsStore } from '../../settings/settings.ts';
import type { Discovery } from '../../discovery/discovery.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { BudgetCounts } from '../../model/budget.ts';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { Collector } from '../../metering/windows/collector.ts';
import type { Credits } from './credits.ts';
import type { BudgetLimiter } from './budget-limiter.ts';
import { StoredAccounts } from './accounts.ts';
import type { AccountSources } from './make-accounts.ts';
import type { PrepaidBalances } from './prepaid.ts';
import type { UnclosedUsage } from './account.ts';
import { type BudgetLeft, budgetLeft } from './budget-left.ts';
import { type BudgetState, budgetStateOf } from './budget-state.ts';

/** Changes within this time are handled in one pass. */
const GATHER_MS = 250;
const RETRY_MS = 1_000;
/** Wakes at least this often: timers have a longest delay, and somebody may set the clock. */
const LONGEST_SLEEP_MS = 60_000;
/**
 * Longest wait for windows that were missed during a stop. In this time six hours of 100,000 pods
 * close (docs/measurements/README.md). A ledger that cannot close windows must not switch budgets
 * off.
 */
const MISSED_WINDOWS_MS = 900_000;

/**
 * Keeps the account of each tenant with a budget up to date with the ledger
 * (docs/how-to/budgets.md). Has the limiter evaluate the tenants that change.
 */
export class BudgetController {
  readonly #options;
  readonly #accounts: StoredAccounts;
  /** Tenants to evaluate: something has changed for them since the last evaluation. */
  readonly #changed = new Set<string>();
  /** True when a tenant that its budget limits may have no budget now. */
  #mayRelease = false;
  /** Tenants whose credits must be read again. */
  readonly #credited = new Set<string>();
  /** True when a tenant with a credit may have no book yet. */
  #mayOpenBooks = true;
  #isLoaded = false;
  /** False when tenants may have changed since they were last compared. */
  #areTenantsChecked = false;
  #wake = new AbortController();
  /** Since when the accounts lack a change, monotonic milliseconds; undefined if they lack none. */
  #behindSince: number | undefined;
  /** The first change since the pass in progress began. Monotonic milliseconds. */
  #wokenAt: number | undefined;
  #lastFailure = '';
  /** Windows that end by then were due at the start, milliseconds since the epoch. */
  readonly #dueUntil: number;
  /** Until when evaluation waits for them, monotonic milliseconds; undefined before it begins. */
  #waitsUntil: number | undefined;

  constructor(
    options: AccountSources & {
      readonly ledger: Pick<Ledger, 'head' | 'read' | 'scan' | 'changed' | 'records'>;
      readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
      readonly discovery: Pick<Discovery, 'known' | 'clusters' | 'tenants' | 'subscribe'>;
      readonly windows: Pick<
        Collector,
        'onClosed' | 'closedHead' | 'closedUntil' | 'lastWindow' | 'unclosedEnd'
      >;
      readonly credits: Pick<Credits, 'subscribe'>;
      readonly prepaid: PrepaidBalances;
      /** Acts on the usage of the accounts. */
      readonly limiter: BudgetLimiter;
      /** False until the price books have been read. */
      readonly pricesKnown: () => boolean;
      readonly clock: Clock;
      readonly logger: Pick<Logger, 'warn'>;
    },
  ) {
    this.#options = options;
    this.#accounts = new StoredAccounts(options);
    const { clock, settings } = options;
    this.#dueUntil = clock.now() - settings.current().metering.settlingDelayMs;
  }

  /**
   * The current state of every budget whose account is built: all of them, or those that one
   * TenantOverride gives.
   */
  list(override?: string): readonly BudgetState[] {
    const { clock, limiter } = this.#options;
    const now = clock.now();
    return [...this.#accounts.stored].flatMap(([tenant, stored]) => {
      if (override !== undefined && stored.override !== override) return [];
      return [budgetStateOf({ tenant, ...stored, state: limiter.stateOf(tenant) }, now)];
    });
  }

  /** One tenant's budget now. Undefined without one, and until its account is built. */
  of(tenant: string): BudgetState | undefined {
    const { clock, limiter } = this.#options;
    const stored = this.#accounts.stored.get(tenant);
    const state = limiter.stateOf(tenant);
    return stored && budgetStateOf({ tenant, ...stored, state }, clock.now());
  }

  /** For how long the accounts lack a change, milliseconds; `Infinity` until they are built. */
  get staleMs(): number {
    if (!this.#accounts.areMade) return Number.POSITIVE_INFINITY;
    const since = this.#behindSince ?? this.#wokenAt;
    return since === undefined ? 0 : this.#options.clock.monotonic() - since;
  }

  /** The sequence number of the last event that the accounts contain. */
  get position(): number {
    return this.#accounts.position;
  }

  /**
   * What is left of a tenant's budget when usage counts that the ledger does not have yet.
   * Undefined without a budget.
   */
  left(tenant: string, open: readonly UnclosedUsage[]): BudgetLeft | undefined {
    const { clock, limiter } = this.#options;
    const stored = this.#accounts.stored.get(tenant);
    if (stored === undefined) return undefined;
    const [state, maySuspend] = [limiter.stateOf(tenant), limiter.maySuspend(tenant)];
    return budgetLeft(stored, { open, state, maySuspend }, clock.now());
  }

  /**
   * A tenant's usage in closed windows since its first credit in this unit, in the units of a
   * budget. Undefined while it is unknown, and when the record of it is damaged.
   */
  prepaidUsed(tenant: string, counts: BudgetCounts): bigint | undefined {
    if (!this.#accounts.areMade) return undefined;
    const { prepaid } = this.#options;
    if (prepaid.isDamaged(tenant, counts)) return undefined;
    const stored = this.#accounts.balanceIn(tenant, counts);
    const account =
      stored !== undefined && Number.isFinite(stored.period.from)
        ? stored.account
        : prepaid.book(tenant, counts)?.account(this.#accounts.pricesOf);
    return account?.used ?? 0n;
  }

  /** The unit of a tenant's prepaid budget; undefined when it has none. */
  prepaidCounts(tenant: string): BudgetCounts | undefined {
    const budget = this.#accounts.stored.get(tenant)?.budget;
    return budget?.period.kind === 'prepaid' ? budget.counts : undefined;
  }

  /** Updates accounts until the signal is aborted. Never rejects: a failed pass is retried. */
  async run(signal: AbortSignal): Promise<void> {
    const { discovery, settings, credits, prepaid, windows, clock, limiter } = this.#options;
    const onTenants = (): void => {
      this.#areTenantsChecked = false;
      this.#wakeUp();
    };
    const unsubscribers = [
      discovery.subscribe(onTenants),
      settings.subscribe(onTenants),
      credits.subscribe((tenant) => {
        this.#credited.add(tenant);
        this.#wakeUp();
      }),
      windows.onClosed(() => this.#wakeUp()),
    ];
    const loops = Promise.all([this.#followHead(signal), limiter.run(signal)]);
    const slice = new TimeSlice(clock);
    while (!signal.aborted) {
      const until = await this.#tryPass(signal);
      if (until <= clock.now()) await slice.next();
      else await this.#waitUntil(until, signal);
    }
    for (const end of unsubscribers) end();
    await loops;
    // The next process reads again what a failed save leaves out.
    if (this.#isLoaded) await prepaid.save(this.#accounts.pricesOf, true).catch(() => undefined);
  }

  /** Waits until a moment or a wake-up. Wake-ups within a short time end one wait together. */
  async #waitUntil(until: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const sleep = async (ms: number, ending: AbortSignal): Promise<void> => {
      if (ms > 0) await clock.sleep(ms, ending).catch(() => undefined);
    };
    await sleep(Math.min(GATHER_MS, until - clock.now()), signal);
    await sleep(until - clock.now(), AbortSignal.any([signal, this.#wake.signal]));
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
  }

  #note(tenants: Iterable<string>): void {
    for (const tenant of tenants) this.#changed.add(tenant);
  }

  #wakeUp(): void {
    this.#wokenAt ??= this.#options.clock.monotonic();
    // One shared reason: without it each abort creates an error with a stack.
    this.#wake.abort(WOKEN);
  }

  async #followHead(signal: AbortSignal): Promise<void> {
    const { ledger, clock } = this.#options;
    let seen = ledger.head();
    while (!signal.aborted) {
      // Also rejects when the ledger cannot be read. The pass reports that.
      await ledger
        .changed(seen, signal)
        .catch(() => clock.sleep(RETRY_MS, signal))
        .catch(() => undefined);
      seen = ledger.head();
      this.#wakeUp();
    }
  }

  /** Runs one pass. Returns when the next is due if nothing wakes it, ms since the epoch. */
  async #tryPass(signal: AbortSignal): Promise<number> {
    const { clock, logger } = this.#options;
    this.#behindSince ??= this.#wokenAt;
    this.#wokenAt = undefined;
    try {
      const until = await this.#pass(signal);
      this.#lastFailure = '';
      return until;
    } catch (error) {
      const failure = errorText(error);
      if (failure !== this.#lastFailure && !signal.aborted) {
        logger.warn(`[budgets] budgets are not counted: ${failure}`);
      }
      this.#lastFailure = failure;
      return clock.now() + RETRY_MS;
    }
  }

  /** Adds new events, then evaluates the tenants that change and those that are due. */
  async #pass(signal: AbortSignal): Promise<number> {
    const { discovery, pricesKnown, prepaid, clock, limiter } = this.#options;
    const soon = clock.now() + RETRY_MS;
    if (!discovery.known() || !pricesKnown()) return soon;
    if (!this.#isLoaded) await prepaid.load();
    this.#isLoaded = true;
    await this.#readCredits();
    if (!(await this.#updateAccounts(signal))) return soon;
    const areOpen = await this.#openBooks(signal);
    if (areOpen) this.#behindSince = undefined;
    const isWaiting = this.#waitsForMissed();
    await this.#evaluate(isWaiting);
    await prepaid.save(this.#accounts.pricesOf);
    if (this.#credited.size > 0) return clock.now();
    const longest = clock.now() + (areOpen && !isWaiting ? LONGEST_SLEEP_MS : RETRY_MS);
    return Math.min(this.#accounts.outdatedAt, limiter.nextAt, longest);
  }

  /**
   * Returns true while the accounts lack windows that were missed during a stop. Workloads may have
   * ended in them, so the rate of the window before says too little.
   */
  #waitsForMissed(): boolean {
    const { windows, clock } = this.#options;
    const now = clock.monotonic();
    this.#waitsUntil ??= now + MISSED_WINDOWS_MS;
    const areClosed = windows.unclosedEnd() > this.#dueUntil && this.#accounts.areComplete;
    if (areClosed) this.#waitsUntil = -Infinity;
    return now < this.#waitsUntil;
  }

  async #evaluate(isWaiting: boolean): Promise<void> {
    const { limiter, clock } = this.#options;
    this.#note(limiter.take(clock.now()));
    if (this.#changed.size === 0 && !this.#mayRelease) return;
    // Without tenants the limiter still reads the states that it stored.
    const tenants = isWaiting ? [] : [...this.#changed];
    for (const tenant of tenants) this.#changed.delete(tenant);
    try {
      const { stored, areComplete: isComplete } = this.#accounts;
      await limiter.evaluate({ stored, tenants, isComplete });
      this.#mayRelease = false;
    } catch (error) {
      this.#note(tenants);
      throw error;
    }
  }

  async #readCredits(): Promise<void> {
    for (const tenant of this.#credited) {
      // Deleted before the read, so that a credit that arrives meanwhile causes another read.
      this.#credited.delete(tenant);
      try {
        await this.#accounts.readCredits(tenant);
      } catch (error) {
        this.#credited.add(tenant);
        throw error;
      }
      this.#mayOpenBooks = true;
      this.#note([tenant]);
    }
  }

  /**
   * Brings the accounts up to date with tenants, prices and the ledger. Returns false while that is
   * impossible.
   */
  async #updateAccounts(signal: AbortSignal): Promise<boolean> {
    const now = this.#options.clock.now();
    const mayTenantsDiffer = !this.#areTenantsChecked;
    this.#areTenantsChecked = true;
    if (this.#accounts.isOutdated(now, mayTenantsDiffer)) {
      this.#areTenantsChecked = false;
      if (!(await this.#accounts.remake(now, signal))) return false;
      this.#mayRelease = true;
      this.#note(this.#accounts.stored.keys());
    }
    this.#note(await this.#accounts.follow());
    return true;
  }

  /** Returns false when it must be retried. */
  async #openBooks(signal: AbortSignal): Promise<boolean> {
    if (!this.#mayOpenBooks) return true;
    const opened = await this.#accounts.openBooks(signal);
    this.#note(opened ?? []);
    this.#mayOpenBooks = opened === undefined;
    return !this.#mayOpenBooks;
  }
}

const WOKEN = 'something has changed';
