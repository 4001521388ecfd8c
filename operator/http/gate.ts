import type { Response } from 'express';
import { tryLater } from './problem.ts';

/** Lets a bounded amount of work in at a time and refuses the rest with 503. */
export interface Gate {
  /** Takes a share for as long as the client waits for its answer; throws 503 when there is no room. */
  hold(share: number, response: Response): void;
}

export function createGate(capacity: number, what: string): Gate {
  let used = 0;
  return {
    hold: (share, response) => {
      if (response.closed) return;
      if (used > 0 && used + share > capacity) {
        throw tryLater(503, 1, `busy: ${what}: try again in a second`);
      }
      used += share;
      response.once('close', () => {
        used -= share;
      });
    },
  };
}
