import type { Clock } from '../../telemetry/clock.ts';
import type { Query } from './readers.ts';
import type { Store } from './store.ts';

export interface PollOptions {
  readonly store: Pick<Store, 'contents' | 'refresh'>;
  readonly query: Query;
  readonly clock: Clock;
  /** Something was read that another process has written. */
  readonly onChange: () => void;
}

/** A look costs the server a tenth of a millisecond. */
const POLL_MS = 250;

/**
 * Keeps what is known of a stream up to date while other processes write it, until the signal is aborted. What cannot
 * be read is read with the next look: whoever writes meanwhile says why.
 */
export async function pollStream(options: PollOptions, signal: AbortSignal): Promise<void> {
  const { store, query, clock, onChange } = options;
  for (;;) {
    await clock.sleep(POLL_MS, signal).catch(() => undefined);
    if (signal.aborted) return;
    const { state } = store.contents();
    const rows = await query({
      text: 'select batch, low_water, epoch from meterfeed.stream where stream = $1',
      values: [state.stream],
    }).catch(() => []);
    const [row] = rows;
    if (row === undefined) continue;
    const isAsKnown =
      Number(row['batch']) === state.batch &&
      Number(row['low_water']) === state.lowWater &&
      Number(row['epoch']) === state.epoch;
    if (isAsKnown || signal.aborted) continue;
    const failure = await store.refresh();
    if (failure === undefined) onChange();
  }
}
