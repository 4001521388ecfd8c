import type { Customer, CustomerRecords } from '../../ledger/fleet.ts';

/** Result of work on a customer, and the new record: as before, none, or another one. */
export interface CustomerWork<T> {
  readonly result: T;
  readonly record: 'as before' | 'none' | Customer;
}

/**
 * Customers of destinations over all streams of the hub that leads. Works on one customer at a time
 * (docs/how-to/fleet.md#one-customer).
 */
export class FleetCustomers {
  readonly #records: CustomerRecords;
  readonly #mayWork: () => boolean;
  /** Records by destination and tenant. Read once, because no other process writes them. */
  readonly #known = new Map<string, Promise<Map<string, Customer>>>();
  /** End of the latest requested work on each customer. */
  readonly #ends = new Map<string, Promise<unknown>>();

  /** `mayWork` returns whether this process certainly leads where the records are. */
  constructor(records: CustomerRecords, mayWork: () => boolean) {
    this.#records = records;
    this.#mayWork = mayWork;
  }

  /**
   * Runs `work` after all earlier work on this customer of a destination, and durably records its
   * result. Rejects if the records cannot be read or written; call it again then.
   */
  async alone<T>(
    destination: string,
    tenant: string,
    work: (known: Customer | undefined) => Promise<CustomerWork<T>>,
  ): Promise<T> {
    const key = `${destination}\0${tenant}`;
    const before = this.#ends.get(key);
    const working = (async () => {
      await before;
      return this.#work(destination, tenant, work);
    })();
    const end = working.catch(() => undefined);
    this.#ends.set(key, end);
    try {
      return await working;
    } finally {
      if (this.#ends.get(key) === end) this.#ends.delete(key);
    }
  }

  async #work<T>(
    destination: string,
    tenant: string,
    work: (known: Customer | undefined) => Promise<CustomerWork<T>>,
  ): Promise<T> {
    const known = await this.#of(destination);
    if (!this.#mayWork()) throw new Error('another process of the hub may lead by now');
    const before = known.get(tenant);
    const { result, record } = await work(before);
    const next = record === 'as before' ? before : record === 'none' ? undefined : record;
    if (JSON.stringify(next) === JSON.stringify(before)) return result;
    await this.#records.write(destination, tenant, next);
    if (next === undefined) known.delete(tenant);
    else known.set(tenant, next);
    return result;
  }

  #of(destination: string): Promise<Map<string, Customer>> {
    const known = this.#known.get(destination);
    if (known !== undefined) return known;
    const reading = this.#records.read(destination).then((found) => new Map(found));
    this.#known.set(destination, reading);
    reading.catch(() => this.#known.delete(destination));
    return reading;
  }
}
