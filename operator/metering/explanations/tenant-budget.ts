/** Bytes of a day. */
export interface DayLimits {
  readonly tenant: number;
  /** Of all tenants together. */
  readonly all: number;
}

/**
 * What each tenant may still write on a day: one whose objects come and go all the time has its own
 * explanations cut short, and nobody else's.
 */
export class TenantBudget {
  #day = Number.NaN;
  #total = 0;
  readonly #spent = new Map<string, number>();
  readonly #exceeded = new Set<string>();

  /** To be called before the others; a new day begins with nothing spent. */
  begin(day: number): void {
    if (day === this.#day) return;
    this.#day = day;
    this.#total = 0;
    this.#spent.clear();
    this.#exceeded.clear();
  }

  /** Whether so many bytes more are within the limits; once they are not, nothing more is that day. */
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
