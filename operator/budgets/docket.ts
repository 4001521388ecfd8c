import type { Clock } from '../telemetry/clock.ts';
import { Turn } from '../telemetry/turn.ts';
import type { BudgetGate } from './gate.ts';
import type { KeptAccounts } from './kept-accounts.ts';
import type { LiveTracker } from './live-tracker.ts';

export interface DocketOptions {
  readonly accounts: Pick<KeptAccounts, 'kept' | 'areWhole'>;
  readonly live: Pick<LiveTracker, 'measure' | 'tell'>;
  readonly gate: Pick<BudgetGate, 'take' | 'momentOf' | 'stateOf' | 'judge'>;
  readonly clock: Clock;
}

const RETRY_MS = 1_000;
/** Longer than a window, as a rule. */
const NEAR_MS = 600_000;
/** Judged together, and so written together. */
const TENANTS_AT_ONCE = 50;

/** The tenants that are to be looked at, since something of them has changed or their moment has come. */
export class Docket {
  readonly #options: DocketOptions;
  readonly #changed = new Set<string>();
  /** Those of them whose moment has come. */
  readonly #due = new Set<string>();
  /** Of whom something could not be told; they are looked at once more. */
  readonly #waiting = new Set<string>();
  #waitsUntil = 0;
  /** Who has a budget may be others than those who are held for one. */
  #mayBeFreed = false;

  constructor(options: DocketOptions) {
    this.#options = options;
  }

  /** Whether somebody is to be looked at once more soon. */
  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Something of these has changed. Gives whether anybody is to be looked at. */
  note(tenants: Iterable<string>): boolean {
    for (const tenant of tenants) this.#changed.add(tenant);
    return this.#changed.size > 0;
  }

  /**
   * What these use may be more than it was. Those are looked at for it that are near to something, and all of whom that is not
   * known: the others are when their window is closed, as everybody.
   */
  noteNear(tenants: Iterable<string>): boolean {
    const { gate, clock } = this.#options;
    const soon = clock.now() + NEAR_MS;
    return this.note([...tenants].filter((tenant) => (gate.momentOf(tenant) ?? soon) <= soon));
  }

  /** All accounts are others. */
  renew(): void {
    this.#mayBeFreed = true;
    this.note(this.#options.accounts.kept.keys());
  }

  /**
   * Measures tenants and judges them by that, those first that are the nearest to whatever follows, for as long as one turn:
   * none is passed over because something of it has changed once more. False where some are left for another turn.
   */
  async judge(): Promise<boolean> {
    const { accounts, live, gate, clock } = this.#options;
    const turn = new Turn(clock);
    // What others have done in this round would leave time for a single tenant.
    if (turn.isOver) await turn.next();
    const { kept } = accounts;
    const now = clock.now();
    for (const tenant of gate.take(now)) {
      this.#due.add(tenant);
      this.#changed.add(tenant);
    }
    this.#retryWaiting(now);
    const measured = new Map<string, boolean>();
    let areAll = true;
    for (const tenant of this.#nearestFirst()) {
      if (measured.size > 0 && (turn.isOver || measured.size >= TENANTS_AT_ONCE)) {
        areAll = false;
        break;
      }
      this.#changed.delete(tenant);
      const account = kept.get(tenant)?.account;
      if (account === undefined) continue;
      // Nobody is suspended by a part that was measured long ago.
      const isWhole = this.#due.delete(tenant) && gate.stateOf(tenant) !== 'suspended';
      measured.set(tenant, live.measure(tenant, isWhole));
      live.tell(tenant, account);
    }
    for (const [tenant, isMeasured] of measured) if (!isMeasured) this.#waiting.add(tenant);
    if (measured.size === 0 && !this.#mayBeFreed) return true;
    try {
      await gate.judge({
        kept,
        tenants: measured.keys(),
        // Nobody is let go by what is not known of it.
        isWhole: (tenant) => measured.get(tenant) === true && accounts.areWhole,
      });
      this.#mayBeFreed = false;
      return areAll;
    } catch (error) {
      for (const tenant of measured.keys()) this.#changed.add(tenant);
      throw error;
    }
  }

  /** Those whose moment has come, or is not known, and then the others by theirs. */
  #nearestFirst(): readonly string[] {
    const { gate } = this.#options;
    return [...this.#changed]
      .map((tenant) => ({ tenant, at: gate.momentOf(tenant) ?? Number.NEGATIVE_INFINITY }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ tenant }) => tenant);
  }

  #retryWaiting(now: number): void {
    if (this.#waiting.size === 0 || now < this.#waitsUntil) return;
    this.#waitsUntil = now + RETRY_MS;
    for (const tenant of this.#waiting) this.#changed.add(tenant);
    this.#waiting.clear();
  }
}
