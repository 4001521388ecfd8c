/**
 * What each tenant may still write on a day: one whose objects come and go all the time has its own
 * explanations cut short, and nobody else's.
 */
export class TenantBudget {
  #day = Number.NaN;
  readonly #spent = new Map<string, number>();
  readonly #exceeded = new Set<string>();

  /** To be called before the others; a new day begins with nothing spent. */
  begin(day: number): void {
    if (day === this.#day) return;
    this.#day = day;
    this.#spent.clear();
    this.#exceeded.clear();
  }

  /** Whether so many bytes more are within `most`; once they are not, nothing more is that day. */
  admit(tenant: string, bytes: number, most: number): boolean {
    const spent = (this.#spent.get(tenant) ?? 0) + bytes;
    this.#spent.set(tenant, spent);
    if (spent > most) this.#exceeded.add(tenant);
    return !this.#exceeded.has(tenant);
  }

  isExceeded(tenant: string): boolean {
    return this.#exceeded.has(tenant);
  }
}
