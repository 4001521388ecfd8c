/** Limits in bytes a day. */
export interface DayLimits {
  readonly tenant: number;
  /** For all tenants together. */
  readonly all: number;
}

/**
 * Tracks how many bytes each tenant may still write on a day. A tenant whose objects come and go
 * all the time loses only its own explanations.
 */
export class TenantBudget {
  #day = Number.NaN;
  #total = 0;
  readonly #spent = new Map<string, number>();
  readonly #exceeded = new Set<string>();

  /** Starts a day with nothing spent. Call it before the other methods. */
  begin(day: number): void {
    if (day === this.#day) return;
    this.#day = day;
    this.#total = 0;
    this.#spent.clear();
    this.#exceeded.clear();
  }

  /**
   * Returns whether so many more bytes are within the limits. After the first refusal, the tenant
   * gets no more that day.
   */
  admit(tenant: string, bytes: number, limits: DayLimits): boolean {
    if (this.#exceeded.has(tenant)) return false;
    const spent = (this.#spent.get(tenant) ?? 0) + bytes;
    if (spent > limits.tenant || this.#total + bytes > limits.all) {
      this.#exceeded.add(tenant);
      return false;
    }
    this.#total += bytes;
    this.#spent.set(tenant, spent);
    return true;
  }

  isExceeded(tenant: string): boolean {
    return this.#exceeded.has(tenant);
  }
}
