import type { Customer, CustomerRecords } from '../../ledger/fleet.ts';

/** What came of work on a customer, and what is to be on record from then on: as before, nothing, or another. */
export interface CustomerWork<T> {
  readonly result: T;
  readonly record: 'as before' | 'none' | Customer;
}

/** Customers of destinations, one at a time over all streams of the hub that leads (docs/how-to/fleet.md#one-customer). */
export class Customers {
  readonly #records: CustomerRecords;
  readonly #mayWork: () => boolean;
  /** What is on record, by destination and tenant: read once, for nobody else writes it. */
  readonly #known = new Map<string, Promise<Map<string, Customer>>>();
  /** The end of the work on a customer that was asked for last. */
  readonly #ends = new Map<string, Promise<unknown>>();

  /** `mayWork`: whether this process certainly leads where the records are. */
  constructor(records: CustomerRecords, mayWork: () => boolean) {
    this.#records = records;
    this.#mayWork = mayWork;
  }

  /**
   * Runs `work` after all earlier work on this customer of a destination, and durably notes what it returns. Rejects where the
   * records cannot be read or written: then it has to be done again.
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
