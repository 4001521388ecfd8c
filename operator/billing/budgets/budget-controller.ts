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
import { type BudgetState, budgetStateOf } from './budget-state.ts';

export interface BudgetControllerOptions extends AccountSources {
  readonly ledger: Pick<Ledger, 'head' | 'read' | 'scan' | 'changed' | 'records'>;
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly discovery: Pick<Discovery, 'known' | 'clusters' | 'tenants' | 'subscribe'>;
  readonly windows: Pick<Collector, 'onClosed' | 'closedHead' | 'closedUntil' | 'lastWindow'>;
  readonly credits: Pick<Credits, 'subscribe'>;
  readonly prepaid: PrepaidBalances;
  /** Acts on what the accounts come to. */
  readonly limiter: BudgetLimiter;
  /** False while prices have not been read. */
  readonly pricesKnown: () => boolean;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'warn'>;
}

/** Changes of a moment are looked at together. */
const GATHER_MS = 250;
const RETRY_MS = 1_000;
/** Timers hold no longer delays, and clocks are set. */
const LONGEST_SLEEP_MS = 60_000;

/** Keeps an account of what each tenant with a budget has used of it (docs/how-to/budgets.md). */
export class BudgetController {
  readonly #options: BudgetControllerOptions;
  readonly #accounts: StoredAccounts;
  /** Tenants that something has changed for since they were judged. */
  readonly #changed = new Set<string>();
  /** Who has a budget may be others than those who are suspended by one. */
  #mayBeFreed = false;
  /** Whose credits are to be looked at. */
  readonly #credited = new Set<string>();
  /** Somebody was credited who may have no book yet. */
  #mayOpenBooks = true;
  #isLoaded = false;
  /** False where tenants may have changed since. */
  #isLookedAt = false;
  #wake = new AbortController();
  #lastFailure = '';

  constructor(options: BudgetControllerOptions) {
    this.#options = options;
    this.#accounts = new StoredAccounts(options);
  }

  /** Every tenant that has a budget and whose account is made, as it stands now: of all, or of one TenantOverride. */
  list(override?: string): readonly BudgetState[] {
    const { clock, limiter: guard } = this.#options;
    const now = clock.now();
    return [...this.#accounts.stored].flatMap(([tenant, stored]) => {
      if (override !== undefined && stored.override !== override) return [];
      return [budgetStateOf({ tenant, ...stored, state: guard.stateOf(tenant) }, now)];
    });
  }

  /** That of one tenant; undefined where it has none, and where its account is not made yet. */
  of(tenant: string): BudgetState | undefined {
    const { clock, limiter: guard } = this.#options;
    const stored = this.#accounts.stored.get(tenant);
    const state = guard.stateOf(tenant);
    return stored && budgetStateOf({ tenant, ...stored, state }, clock.now());
  }

  /**
   * What a tenant has used since it was first credited in this unit, by the closed windows, in the units of a budget; undefined
   * while that is not known.
   */
  prepaidUsed(tenant: string, counts: BudgetCounts): bigint | undefined {
    if (!this.#accounts.areMade) return undefined;
    const { prepaid } = this.#options;
    const stored = this.#accounts.balanceIn(tenant, counts);
    const account =
      stored !== undefined && Number.isFinite(stored.period.from)
        ? stored.account
        : prepaid.book(tenant, counts)?.account(this.#accounts.pricesOf);
    return account?.used ?? 0n;
  }

  /** What a tenant's prepaid budget counts; undefined where it has none. */
  prepaidCounts(tenant: string): BudgetCounts | undefined {
    const budget = this.#accounts.stored.get(tenant)?.budget;
    return budget?.period.kind === 'prepaid' ? budget.counts : undefined;
  }

  /** Keeps accounts until the signal is aborted. Never rejects: what fails is tried again. */
  async run(signal: AbortSignal): Promise<void> {
    const { discovery, settings, credits, prepaid, windows, clock, limiter: guard } = this.#options;
    const poll = (): void => {
      this.#isLookedAt = false;
      this.#wakeUp();
    };
    const endings = [
      discovery.subscribe(poll),
      settings.subscribe(poll),
      credits.subscribe((tenant) => {
        this.#credited.add(tenant);
        this.#wakeUp();
      }),
      windows.onClosed(() => this.#wakeUp()),
    ];
    const beside = Promise.all([this.#followHead(signal), guard.run(signal)]);
    const turn = new TimeSlice(clock);
    while (!signal.aborted) {
      const until = await this.#tryPass(signal);
      if (until <= clock.now()) await turn.next();
      else await this.#rest(until, signal);
    }
    for (const end of endings) end();
    await beside;
    // Whatever fails here is read once more by the next process.
    if (this.#isLoaded) await prepaid.save(this.#accounts.pricesOf, true).catch(() => undefined);
  }

  /** Until a moment comes, or something wakes; what comes in a short while is looked at together. */
  async #rest(until: number, signal: AbortSignal): Promise<void> {
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
    // With a reason of its own each would be an error with a stack.
    this.#wake.abort(WOKEN);
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
      this.#wakeUp();
    }
  }

  /** When the next is to be if nothing wakes, milliseconds since the epoch. */
  async #tryPass(signal: AbortSignal): Promise<number> {
    const { clock, logger } = this.#options;
    try {
      const until = await this.#round(signal);
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

  /** Adds what is new, and judges the tenants that it changes, and those whose moment has come. */
  async #round(signal: AbortSignal): Promise<number> {
    const { discovery, pricesKnown, prepaid, clock, limiter: guard } = this.#options;
    const soon = clock.now() + RETRY_MS;
    if (!discovery.known() || !pricesKnown()) return soon;
    if (!this.#isLoaded) await prepaid.load();
    this.#isLoaded = true;
    await this.#readCredits();
    if (!(await this.#keepUp(signal))) return soon;
    const areOpen = await this.#openBooks(signal);
    await this.#evaluate();
    await prepaid.save(this.#accounts.pricesOf);
    if (this.#credited.size > 0) return clock.now();
    const longest = clock.now() + (areOpen ? LONGEST_SLEEP_MS : RETRY_MS);
    return Math.min(this.#accounts.outdatedAt, guard.nextAt, longest);
  }

  async #evaluate(): Promise<void> {
    const { limiter: guard, clock } = this.#options;
    this.#note(guard.take(clock.now()));
    if (this.#changed.size === 0 && !this.#mayBeFreed) return;
    const tenants = [...this.#changed];
    this.#changed.clear();
    try {
      const { stored, areComplete: isComplete } = this.#accounts;
      await guard.judge({ stored, tenants, isComplete });
      this.#mayBeFreed = false;
    } catch (error) {
      this.#note(tenants);
      throw error;
    }
  }

  async #readCredits(): Promise<void> {
    for (const tenant of this.#credited) {
      // Before the look, so that a credit that comes during it has another one.
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

  /** Makes the accounts what tenants, prices and the ledger say; false where that cannot be done yet. */
  async #keepUp(signal: AbortSignal): Promise<boolean> {
    const now = this.#options.clock.now();
    const mayTenantsDiffer = !this.#isLookedAt;
    this.#isLookedAt = true;
    if (this.#accounts.isOutdated(now, mayTenantsDiffer)) {
      this.#isLookedAt = false;
      if (!(await this.#accounts.remake(now, signal))) return false;
      this.#mayBeFreed = true;
      this.#note(this.#accounts.stored.keys());
    }
    this.#note(await this.#accounts.follow());
    return true;
  }

  /** False where it is to be tried again. */
  async #openBooks(signal: AbortSignal): Promise<boolean> {
    if (!this.#mayOpenBooks) return true;
    const opened = await this.#accounts.openBooks(signal);
    this.#note(opened ?? []);
    this.#mayOpenBooks = opened === undefined;
    return !this.#mayOpenBooks;
  }
}

const WOKEN = 'something has changed';
