import type { OpenLedgerOutcome } from './ledger.ts';

/** Which stream of a database: its names as it was registered with. */
export interface StreamName {
  /** CLUSTER_NAME. */
  readonly source: string;
  /** REGION: part of every event id, so no two streams of a database may share one. */
  readonly region: string;
}

/** A database with the streams of many clusters, for whoever reads and feeds all of them and is the meter of none. */
export interface FleetDatabase {
  /** For people: host, port and name. */
  readonly name: string;
  /** The streams that there are, those that were registered first first. Rejects while the database does not answer. */
  streams(): Promise<readonly StreamName[]>;
  /** Comes to a stream as one of several processes. */
  join(stream: StreamName): Promise<OpenLedgerOutcome>;
  readonly customers: Customers;
}

/** Customers of destinations, one at a time over all processes of all streams (docs/fleet.md#one-customer). */
export interface Customers {
  /**
   * Runs `work` while nobody else has this customer of a destination, and durably notes what it says. Rejects when that cannot be
   * had or noted: then it has to be done again.
   */
  alone<T>(
    destination: string,
    tenant: string,
    work: (known: Customer | undefined) => Promise<CustomerWork<T>>,
  ): Promise<T>;
}

/** What is on record of a customer. */
export interface Customer {
  /** Tells what it was provisioned with. */
  readonly fingerprint: string;
  /** The earliest window start that was to be billed, milliseconds since the epoch. */
  readonly billableFrom?: number;
  /** The streams that it is provisioned for. */
  readonly streams: readonly string[];
}

/** What came of work on a customer, and what is to be on record from then on: as before, nothing, or another. */
export interface CustomerWork<T> {
  readonly result: T;
  readonly record: 'as before' | 'none' | Customer;
}
