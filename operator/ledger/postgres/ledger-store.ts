import type { HeadWaiters } from '../head-waiters.ts';
import type { WriteRequestOutcome } from '../writer.ts';
import type { PostgresRequest } from './plan-batch.ts';
import type { StreamContents, StreamView } from './state.ts';

/** Location of records with a key or key prefix: the table and the prefix of its keys. */
export interface RecordPlace {
  readonly table: string;
  readonly before: string;
}

/** A stream as its operator or a hub reads and changes it. */
export interface LedgerStore {
  /** Readers that wait for events; notified whenever the head moves. */
  readonly heads: HeadWaiters;
  contents(): StreamContents;
  view(): StreamView;
  /** Writes one batch. */
  write(requests: readonly PostgresRequest[]): Promise<readonly WriteRequestOutcome[]>;
  recordsAt(key: string): RecordPlace;
  close(): Promise<void>;
}
