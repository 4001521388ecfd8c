import { tryLater } from './problem.ts';

/** Lets a bounded amount of work in at a time and refuses the rest with 503. */
export interface Gate {
  /** Takes a share and gives the function that returns it; throws 503 when there is no room. */
  enter(share: number): () => void;
}

export function createGate(capacity: number, what: string): Gate {
  let used = 0;
  return {
    enter: (share) => {
      if (used > 0 && used + share > capacity) {
        throw tryLater(503, 1, `busy: ${what}: try again in a second`);
      }
      used += share;
      let returned = false;
      return () => {
        if (!returned) used -= share;
        returned = true;
      };
    },
  };
}
