import type { Clock } from '../../telemetry/clock.ts';
import type { Query } from './readers.ts';
import type { Row } from './session.ts';
import type { Store } from './store.ts';

/**
 * What the row of a stream says of its state, a moment later; undefined where that cannot be read, or the signal is aborted
 * before. Never rejects.
 */
export type Look = (stream: number, signal: AbortSignal) => Promise<Row | undefined>;

export interface PollOptions {
  readonly store: Pick<Store, 'contents' | 'refresh'>;
  readonly look: Look;
  /** Something was read that another process has written. */
  readonly onChange: () => void;
}

/** A look costs the server a tenth of a millisecond. */
const POLL_MS = 250;

/**
 * Looks at all streams of a database at once, for whoever waits for any of them: a hub with a thousand streams would ask
 * four thousand times a second otherwise. Nothing is asked while nobody waits. `only`: at no other stream than that.
 */
export function lookTogether(query: Query, clock: Clock, only?: number): Look {
  let next: Promise<ReadonlyMap<number, Row>> | undefined;
  const all = 'select stream, batch, low_water, epoch from meterfeed.stream';
  const statement =
    only === undefined
      ? { text: all, values: [] }
      : { text: `${all} where stream = $1`, values: [only] };
  const look = async (): Promise<ReadonlyMap<number, Row>> => {
    await clock.sleep(POLL_MS);
    // Whoever comes from now on is to be told what there is then.
    next = undefined;
    const rows = await query(statement).catch(() => []);
    return new Map(rows.map((row) => [Number(row['stream']), row]));
  };
  return async (stream, signal) => {
    next ??= look();
    return (await unlessAborted(next, signal))?.get(stream);
  };
}

/**
 * Keeps what is known of a stream up to date while other processes write it, until the signal is aborted. What cannot
 * be read is read with the next look: whoever writes meanwhile says why.
 */
export async function pollStream(
  { store, look, onChange }: PollOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const { stream } = store.contents().state;
    const row = await look(stream, signal);
    if (row === undefined) continue;
    const { state } = store.contents();
    const isAsKnown =
      Number(row['batch']) === state.batch &&
      Number(row['low_water']) === state.lowWater &&
      Number(row['epoch']) === state.epoch;
    if (isAsKnown || signal.aborted) continue;
    const failure = await store.refresh();
    if (failure === undefined) onChange();
  }
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const leave = (): void => resolve(undefined);
    if (signal.aborted) return leave();
    signal.addEventListener('abort', leave, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
