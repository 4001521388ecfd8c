import type { Ledger, LedgerFailure, WriteOutcome } from './ledger.ts';
import type { Rollups } from './rollups.ts';

/** Names of a stream in a database, as its operator registered them. */
export interface StreamName {
  /** CLUSTER_NAME. */
  readonly source: string;
  /** REGION. Every event id contains it, so no two streams of a database may share one. */
  readonly region: string;
}

/**
 * A database with the streams of many clusters, and the hub that reads and delivers all of them.
 * The hub also needs the row of its leader (`postgres/hub-lease.ts`), whose epoch fences every
 * write.
 */
export interface FleetDatabase {
  /** For people: host, port and name. */
  readonly name: string;
  /** All streams, in order of registration. Rejects while the database does not answer. */
  streams(): Promise<readonly StreamName[]>;
  /**
   * Opens a stream for the hub that leads with `epoch`. The operator of the stream writes its
   * events and records. The hub writes cursors and the records of {@link isHubRecord}; such a write
   * is `fenced` once another process leads. Appending is refused.
   */
  open(stream: StreamName, epoch: number): Promise<OpenStreamOutcome>;
  /** Customers of destinations, for the process that leads with `epoch`. */
  customers(epoch: number): CustomerRecords;
}

/** Outcome of opening a stream. */
export type OpenStreamOutcome =
  | {
      readonly kind: 'opened';
      readonly ledger: Ledger;
      /** The sums of the stream's operator, for reading. */
      readonly rollups: Rollups;
      /**
       * Lets the hub continue a destination that the stream's operator has fed, with the operator's
       * cursor and delivery records. Does nothing if the hub has a cursor for it or the operator
       * has none. Call it after the operator stopped feeding the destination.
       */
      readonly adopt: (destination: string) => Promise<WriteOutcome>;
    }
  | LedgerFailure;

/** True for records of a stream that the hub writes: delivery state and acknowledged departures. */
export function isHubRecord(key: string): boolean {
  return ['delivery/', 'reported/', 'hub/'].some((prefix) => key.startsWith(prefix));
}

/** The customers provisioned for each stream (docs/how-to/fleet.md#one-customer). */
export interface CustomerRecords {
  /** The customers of a destination, by tenant. Rejects if they cannot be read. */
  read(destination: string): Promise<ReadonlyMap<string, Customer>>;
  /** Durably stores a customer, or deletes it. Rejects if that is uncertain. */
  write(destination: string, tenant: string, customer: Customer | undefined): Promise<void>;
}

/** The stored state of a customer. */
export interface Customer {
  /** Hash of the data that it was provisioned with. */
  readonly fingerprint: string;
  /** The earliest billable window start, milliseconds since the epoch. */
  readonly billableFrom?: number;
  /** The streams that the customer is provisioned for. */
  readonly streams: readonly string[];
}
