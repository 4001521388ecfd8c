import type { EncodedEvent } from '../writer.ts';
import { type Fenced, lockLeases } from './fences.ts';
import { lookUpStatements } from './find-stored.ts';
import { LOCK_TIMEOUT_MS } from './known-stream.ts';
import { matchAll, type Matches } from './match-series.ts';
import type { SeriesCache } from './series-cache.ts';
import type { Result, Row, Session } from './session.ts';
import { type DaySegment, stateOf, STREAM_COLUMNS, type StreamState } from './state.ts';
import { beginText } from './transaction.ts';
import { selectWriter } from './writers.ts';

export interface LockOptions {
  readonly stream: number;
  /** Who this process is among those that write the stream. */
  readonly owner: string;
  /** Their leases are locked as well. */
  readonly requests: readonly Fenced[];
  /** The events of the requests, whose ids are looked up. */
  readonly offered: readonly EncodedEvent[];
  /** The days of the stream, as far as they are known. */
  readonly segments: readonly DaySegment[];
  readonly cache: SeriesCache;
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
  readonly matches: Matches;
}

/** So many events are compared while the server takes the lock; it would have to wait for more. */
const MATCHED_MEANWHILE = 1_000;

/** Begins a transaction, takes the stream's row, and reads what decides about the requests. Undefined where there is no such stream. */
export async function lockStream(
  session: Session,
  { stream, owner, requests, offered, segments, cache }: LockOptions,
): Promise<LockedStream | undefined> {
  const leases = lockLeases(stream, owner, requests);
  const answering = session.run([
    { text: beginText(LOCK_TIMEOUT_MS) },
    ...leases,
    {
      text: `select ${STREAM_COLUMNS}, current_setting('synchronous_standby_names') as standbys
        from meterfeed.stream where stream = $1 for update`,
      values: [stream],
    },
    selectWriter(stream, owner),
    ...lookUpStatements(offered, stream, segments),
  ]);
  const matches = matchAll(offered.slice(0, MATCHED_MEANWHILE), cache);
  const answers = await answering;
  const [streams, writers, ...found] = answers.slice(1 + leases.length);
  const row = streams?.rows[0];
  if (row === undefined) return undefined;
  return {
    state: stateOf(row),
    hasStandby: row['standbys'] !== '',
    writer: writers?.rows[0],
    leases: leases.length > 0 ? (answers[1]?.rows ?? []) : [],
    found,
    matches,
  };
}
