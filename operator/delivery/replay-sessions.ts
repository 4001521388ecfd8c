import type { Clock } from '../telemetry/clock.ts';
import type { JudgedEntry } from './book-keeping.ts';

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
  readonly settled: (letters: readonly JudgedEntry[]) => void;
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
        for (const { sequence, verdict } of letters) {
          if (verdict.kind === 'parked' || !session.waiting.delete(sequence)) continue;
          if (verdict.kind === 'dead') session.stillRejected += 1;
          else session.replayed += 1;
        }
        if (session.waiting.size === 0) session.done.abort();
      }
    },
  };
}
