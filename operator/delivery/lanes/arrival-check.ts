import type { Clock } from '../../telemetry/clock.ts';

/** Wait before sums that differ are queried again. Billing systems take a while to add usage up. */
const AGAIN_AFTER_MS = 60_000;
/** Sums that differ this long have another cause. The daily comparison reports it. */
const GIVE_UP_AFTER_MS = 30 * 60_000;

/** Tenants in one query, because each query reads a day of the ledger. */
const MAX_AT_ONCE = 100;

/**
 * Returns the tenants whose sums at the destination contain everything delivered before a moment.
 * `requested` has that moment for each tenant, milliseconds since the epoch.
 */
export type QuerySums = (
  requested: ReadonlyMap<string, number>,
  signal: AbortSignal,
) => Promise<ReadonlySet<string>>;

interface Check {
  readonly before: number;
  state: 'querying' | 'arrived' | 'missing';
  queriedAt: number;
  missingSince?: number;
}

/**
 * Queries in the background whether usage has arrived, so that no other tenant waits. One of the
 * next calls returns the answer. Tenants that arrive during a query share the next one. After half
 * an hour of differences the answer is yes, and `onGivenUp` is called.
 */
export class ArrivalCheck {
  readonly #options;
  readonly #checks = new Map<string, Check>();
  readonly #waiting = new Map<string, Check>();
  readonly #stopped = new AbortController();
  #isQuerying = false;

  constructor(options: {
    /** Absent if the destination reports no sums. Then acknowledged usage counts as arrived. */
    readonly query?: QuerySums;
    readonly clock: Clock;
    /** Called after each answer about a tenant. */
    readonly onAnswer: (tenant: string) => void;
    readonly onGivenUp: (tenant: string) => void;
  }) {
    this.#options = options;
  }

  /** Returns whether everything delivered before a moment has arrived. False while unknown. */
  has(tenant: string, before: number): boolean {
    const { query, clock, onGivenUp } = this.#options;
    if (query === undefined) return true;
    const now = clock.monotonic();
    let check = this.#checks.get(tenant);
    if (check?.before !== before) {
      check = { before, state: 'missing', queriedAt: Number.NEGATIVE_INFINITY };
      this.#checks.set(tenant, check);
    }
    if (check.state === 'arrived') return true;
    if (check.state === 'querying') return false;
    if (now - (check.missingSince ?? now) >= GIVE_UP_AFTER_MS) {
      onGivenUp(tenant);
      return true;
    }
    if (now - check.queriedAt >= AGAIN_AFTER_MS) {
      check.state = 'querying';
      this.#waiting.set(tenant, check);
      void this.#queryAll(query);
    }
    return false;
  }

  forget(tenant: string): void {
    this.#checks.delete(tenant);
    this.#waiting.delete(tenant);
  }

  /** Aborts the current query. */
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
      check.queriedAt = clock.monotonic();
      if (check.state === 'missing') check.missingSince ??= check.queriedAt;
      if (!signal.aborted) onAnswer(tenant);
    }
  }
}
