import type { Clock } from '../../telemetry/clock.ts';

/** Sums that still differ are asked for again after this: billing systems take a while to add usage up. */
const AGAIN_AFTER_MS = 60_000;
/** Sums that differ for so long differ for another reason, which the daily comparison tells. */
const GIVE_UP_AFTER_MS = 30 * 60_000;

/** Tenants that are asked for at once, since each question reads the ledger of a day. */
const MAX_AT_ONCE = 100;

/**
 * Of tenants, each with a moment, those of which a destination's own sums have all that was delivered before
 * that moment.
 */
export type QuerySums = (
  requested: ReadonlyMap<string, number>,
  signal: AbortSignal,
) => Promise<ReadonlySet<string>>;

interface ArrivalCheckOptions {
  /** Absent where the destination reports no sums: then what was acknowledged has arrived. */
  readonly query?: QuerySums | undefined;
  readonly clock: Clock;
  /** There is an answer. */
  readonly onAnswer: (tenant: string) => void;
  readonly onGivenUp: (tenant: string) => void;
}

interface Check {
  readonly before: number;
  state: 'asking' | 'arrived' | 'missing';
  askedAt: number;
  missingSince?: number;
}

/**
 * Asks in the background, so that nobody else waits; the answer is there at one of the next calls. Tenants that
 * want to know while a question is under way are asked for together after it. After half an hour of differences
 * the answer is yes, and `onGivenUp` is called.
 */
export class ArrivalCheck {
  readonly #options: ArrivalCheckOptions;
  readonly #checks = new Map<string, Check>();
  readonly #waiting = new Map<string, Check>();
  readonly #stopped = new AbortController();
  #isQuerying = false;

  constructor(options: ArrivalCheckOptions) {
    this.#options = options;
  }

  has(tenant: string, before: number): boolean {
    const { query, clock, onGivenUp } = this.#options;
    if (query === undefined) return true;
    const now = clock.monotonic();
    let check = this.#checks.get(tenant);
    if (check?.before !== before) {
      check = { before, state: 'missing', askedAt: Number.NEGATIVE_INFINITY };
      this.#checks.set(tenant, check);
    }
    if (check.state === 'arrived') return true;
    if (check.state === 'asking') return false;
    if (now - (check.missingSince ?? now) >= GIVE_UP_AFTER_MS) {
      onGivenUp(tenant);
      return true;
    }
    if (now - check.askedAt >= AGAIN_AFTER_MS) {
      check.state = 'asking';
      this.#waiting.set(tenant, check);
      void this.#queryAll(query);
    }
    return false;
  }

  forget(tenant: string): void {
    this.#checks.delete(tenant);
    this.#waiting.delete(tenant);
  }

  /** Cuts what is under way. */
  stop(): void {
    this.#stopped.abort();
  }

  async #queryAll(query: QuerySums): Promise<void> {
    if (this.#isQuerying) return;
    this.#isQuerying = true;
    while (this.#waiting.size > 0 && !this.#stopped.signal.aborted) await this.#queryNext(query);
    this.#isQuerying = false;
  }

  async #queryNext(query: QuerySums): Promise<void> {
    const { clock, onAnswer } = this.#options;
    const { signal } = this.#stopped;
    const requested = [...this.#waiting].slice(0, MAX_AT_ONCE);
    for (const [tenant] of requested) this.#waiting.delete(tenant);
    const moments = new Map(requested.map(([tenant, { before }]) => [tenant, before]));
    const arrived = await query(moments, signal).catch(() => new Set<string>());
    for (const [tenant, check] of requested) {
      check.state = arrived.has(tenant) ? 'arrived' : 'missing';
      check.askedAt = clock.monotonic();
      if (check.state === 'missing') check.missingSince ??= check.askedAt;
      if (!signal.aborted) onAnswer(tenant);
    }
  }
}
