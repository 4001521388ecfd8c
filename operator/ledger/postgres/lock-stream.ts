import { type Fenced, lockLeases } from './fences.ts';
import { LOCK_TIMEOUT_MS } from './known-stream.ts';
import type { Result, Row, Session, Statement } from './session.ts';
import { stateOf, STREAM_COLUMNS, type StreamState } from './state.ts';
import { beginText } from './transaction.ts';
import { selectWriter } from './writers.ts';

export interface LockOptions {
  readonly stream: number;
  /** Who this process is among those that write the stream. */
  readonly owner: string;
  /** Their leases are locked as well. */
  readonly requests: readonly Fenced[];
  /** What looks up the ids of their events. */
  readonly lookUps: readonly Statement[];
}

/** What holds until the end of the transaction. */
export interface LockedStream {
  readonly state: StreamState;
  /** Whether commits wait for a standby, by the server's configuration. */
  readonly hasStandby: boolean;
  /** The row of this process. */
  readonly writer: Row | undefined;
  /** Those of the requests that this process holds. */
  readonly leases: readonly Row[];
  /** The stored events that have ids of the offered ones. */
  readonly found: readonly Result[];
}

/**
 * Begins a transaction, takes the stream's row, and reads what decides about the requests. Undefined where there is no such stream.
 * All of it is sent before it returns.
 */
export async function lockStream(
  session: Session,
  { stream, owner, requests, lookUps }: LockOptions,
): Promise<LockedStream | undefined> {
  const leases = lockLeases(stream, owner, requests);
  const answers = await session.run([
    { text: beginText(LOCK_TIMEOUT_MS) },
    ...leases,
    {
      text: `select ${STREAM_COLUMNS}, current_setting('synchronous_standby_names') as standbys
        from meterfeed.stream where stream = $1 for update`,
      values: [stream],
    },
    selectWriter(stream, owner),
    ...lookUps,
  ]);
  const [streams, writers, ...found] = answers.slice(1 + leases.length);
  const row = streams?.rows[0];
  if (row === undefined) return undefined;
  return {
    state: stateOf(row),
    hasStandby: row['standbys'] !== '',
    writer: writers?.rows[0],
    leases: leases.length > 0 ? (answers[1]?.rows ?? []) : [],
    found,
  };
}
