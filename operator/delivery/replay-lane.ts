import type { Clock } from '../telemetry/clock.ts';
import { backoffMs } from './backoff.ts';
import { judge, type JudgedEntry } from './book-keeping.ts';
import { firstOf } from './delivery-records.ts';
import { IDLE_LANE, type LaneOptions, type LaneReport } from './parked-lane.ts';

export interface ReplayLane {
  step(signal: AbortSignal): Promise<LaneReport>;
  /** There are letters to send. */
  wake(): void;
  /** Milliseconds until it wants to try again; undefined when there is nothing to send. */
  dueIn(): number | undefined;
}

/**
 * Sends dead letters once more that an operator asked for. A letter leaves its record only in the write
 * that settles it, so none is lost if the process ends half-way.
 */
export function createReplayLane(
  { records, books, sendRound, batchEvents }: LaneOptions,
  clock: Clock,
  random: () => number,
  onSettled: (letters: readonly JudgedEntry[]) => void,
): ReplayLane {
  let retryAt: number | undefined;
  let failures = 0;

  const postpone = (afterMs = 0): void => {
    failures += 1;
    retryAt = clock.monotonic() + Math.max(afterMs, backoffMs(failures, random));
  };

  return {
    wake: () => {
      retryAt = clock.monotonic();
      failures = 0;
    },
    dueIn: () => (retryAt === undefined ? undefined : Math.max(0, retryAt - clock.monotonic())),
    step: async (signal) => {
      if (retryAt === undefined || retryAt > clock.monotonic()) return IDLE_LANE;
      const entries = await firstOf(records.replay(), batchEvents());
      if (entries.length === 0) {
        retryAt = undefined;
        return IDLE_LANE;
      }
      const { verdicts, trouble } = await sendRound(entries, signal);
      const judged = judge(entries, verdicts);
      const outcome = await books.write(judged, ({ sequence }) => records.dropReplay(sequence));
      const settled = outcome.kind === 'written' ? judged : [];
      onSettled(settled);
      const accepted = settled.filter(({ verdict }) => verdict.kind === 'delivered').length;
      const rejected = settled.filter(({ verdict }) => verdict.kind === 'dead').length;
      const complete = settled.length === entries.length;
      if (complete) failures = 0;
      else postpone(trouble?.afterMs);
      const report = { moved: complete, accepted, rejected };
      return trouble?.kind === 'hold' ? { ...report, trouble } : report;
    },
  };
}
