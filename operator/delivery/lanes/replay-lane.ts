import type { Clock } from '../../telemetry/clock.ts';
import { countResults, retryDelayMs, type SettledEvent, withResults } from '../delivery-result.ts';
import { firstOf } from '../records/delivery-records.ts';
import { IDLE_LANE, type LaneOptions, type LaneReport } from './parked-lane.ts';

export interface ReplayLane {
  step(signal: AbortSignal): Promise<LaneReport>;
  /** There are letters to send. */
  wake(): void;
  /** Milliseconds until it wants to try again; undefined when there is nothing to send. */
  dueIn(): number | undefined;
}

export interface ReplayLaneOptions extends LaneOptions {
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly onSettled: (letters: readonly SettledEvent[]) => void;
}

/**
 * Sends dead letters once more that an operator asked for. A letter leaves its record only in the write
 * that settles it, so none is lost if the process ends half-way.
 */
export function createReplayLane(options: ReplayLaneOptions): ReplayLane {
  const { records, settlements, sendRound, batchEvents, clock, random, onSettled } = options;
  let retryAt: number | undefined;
  let failures = 0;

  const postpone = (afterMs = 0): void => {
    failures += 1;
    retryAt = clock.monotonic() + Math.max(afterMs, retryDelayMs(failures, random));
  };

  return {
    wake: () => {
      retryAt = clock.monotonic();
      failures = 0;
    },
    dueIn: () => (retryAt === undefined ? undefined : Math.max(0, retryAt - clock.monotonic())),
    step: async (signal) => {
      if (retryAt === undefined || retryAt > clock.monotonic()) return IDLE_LANE;
      const letters = await firstOf(records.replay(), batchEvents());
      if (letters.length === 0) {
        retryAt = undefined;
        return IDLE_LANE;
      }
      const { results, blocked } = await sendRound(letters, signal);
      const answered = withResults(letters, results);
      const outcome = await settlements.write(answered, ({ sequence }) =>
        records.dropReplay(sequence),
      );
      const settled = outcome.kind === 'written' ? answered : [];
      onSettled(settled);
      const complete = settled.length === letters.length;
      if (complete) failures = 0;
      else postpone(blocked?.afterMs);
      const accepted = countResults(settled, 'delivered');
      const report = { moved: complete, accepted, rejected: countResults(settled, 'dead') };
      return blocked?.kind === 'hold' ? { ...report, blocked } : report;
    },
  };
}

/** How long the answer to a replay waits for what becomes of the letters. */
const WAIT_MS = 20_000;

/** What became of replayed letters so far; `pending` ones go on in the background. */
export interface ReplayResult {
  readonly replayed: number;
  readonly stillRejected: number;
  readonly pending: number;
}

interface Session {
  readonly waiting: Set<number>;
  replayed: number;
  stillRejected: number;
  readonly done: AbortController;
}

/** Lets an operator's replay answer with what became of the letters it put on their way. */
export interface ReplaySessions {
  /** Waits until all are settled, for 20 s at most. Call it before they can be. */
  follow(sequences: readonly number[]): Promise<ReplayResult>;
  /** The replay lane reports here. */
  readonly settled: (letters: readonly SettledEvent[]) => void;
}

export function createReplaySessions(clock: Clock): ReplaySessions {
  const sessions = new Set<Session>();
  return {
    follow: async (sequences) => {
      const done = new AbortController();
      const session = { waiting: new Set(sequences), replayed: 0, stillRejected: 0, done };
      sessions.add(session);
      if (sequences.length > 0) await clock.sleep(WAIT_MS, done.signal).catch(() => undefined);
      sessions.delete(session);
      const { replayed, stillRejected, waiting } = session;
      return { replayed, stillRejected, pending: waiting.size };
    },
    settled: (letters) => {
      for (const session of sessions) {
        for (const { sequence, result } of letters) {
          if (result.kind === 'parked' || !session.waiting.delete(sequence)) continue;
          if (result.kind === 'dead') session.stillRejected += 1;
          else session.replayed += 1;
        }
        if (session.waiting.size === 0) session.done.abort();
      }
    },
  };
}
