import type { Ledger, LedgerFailure, WriteOutcome } from './ledger.ts';
import type { Rollups } from './rollups.ts';

/** Which stream of a database: its names as it was registered with. */
export interface StreamName {
  /** CLUSTER_NAME. */
  readonly source: string;
  /** REGION: part of every event id, so no two streams of a database may share one. */
  readonly region: string;
}

/**
 * A database with the streams of many clusters, for the hub that reads and feeds all of them. What a hub needs of its storage is this and
 * the row of the process that leads (`postgres/hub-lease.ts`), whose epoch fences every write.
 */
export interface FleetDatabase {
  /** For people: host, port and name. */
  readonly name: string;
  /** The streams that there are, those that were registered first first. Rejects while the database does not answer. */
  streams(): Promise<readonly StreamName[]>;
  /**
   * A stream as the hub has it while it leads with `epoch`. Events, and records that the operator of the stream writes, are the stream's.
   * Cursors, and records under {@link isHubRecord}, are the hub's: `fenced` once another process leads. It takes no events.
   */
  open(stream: StreamName, epoch: number): Promise<OpenStreamOutcome>;
  /** Customers of destinations, on record while this process leads with `epoch`. */
  customers(epoch: number): CustomerRecords;
}

/** What came of opening a stream. */
export type OpenStreamOutcome =
  | {
      readonly kind: 'opened';
      readonly ledger: Ledger;
      /** Its operator's, to be read. */
      readonly rollups: Rollups;
      /**
       * Has the hub go on where the operator of the stream has fed a destination, with what that one remembers of it. Does nothing
       * where the hub has a cursor of the destination, or the operator has none. To be called once the operator feeds it no more.
       */
      readonly adopt: (destination: string) => Promise<WriteOutcome>;
    }
  | LedgerFailure;

/** Records of a stream that the hub writes: what delivery keeps, and which departures are acknowledged. */
export function isHubRecord(key: string): boolean {
  return ['delivery/', 'reported/', 'hub/'].some((prefix) => key.startsWith(prefix));
}

/** Which customers are provisioned for which streams (docs/how-to/fleet.md#one-customer). */
export interface CustomerRecords {
  /** The customers of a destination, by tenant. Rejects where they cannot be read. */
  read(destination: string): Promise<ReadonlyMap<string, Customer>>;
  /** Durably notes a customer, or that there is none. Rejects where that is not certain. */
  write(destination: string, tenant: string, customer: Customer | undefined): Promise<void>;
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
