import type { HeadWaiters } from '../head-waiters.ts';
import type { RequestOutcome } from '../writer.ts';
import type { PostgresRequest } from './plan-batch.ts';
import type { Contents, StreamView } from './state.ts';

/** Where the records with a key, or a prefix of keys, are: a table, and what stands there before their keys. */
export interface RecordPlace {
  readonly table: string;
  readonly before: string;
}

/** A stream as one process knows and changes it: its operator, or a hub. */
export interface LedgerStore {
  /** Readers that wait for events; called whenever the head has moved. */
  readonly heads: HeadWaiters;
  contents(): Contents;
  view(): StreamView;
  /** Writes one batch. */
  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]>;
  recordsAt(key: string): RecordPlace;
  close(): Promise<void>;
}
