import { createHash } from 'node:crypto';

/**
 * Keys by which Metronome recognises a call that is made again (facts 3.1). A key is made of what is
 * asked alone, so that it is the same after a crash. Metronome keeps whatever it answered for at least
 * a day, errors included, and gives it again to the same key: once a call was refused or failed over
 * there, its key is spent.
 */
export interface IdempotencyKeys {
  of(action: string): string;
  spend(action: string): void;
}

export function createIdempotencyKeys(): IdempotencyKeys {
  /** How many keys of an action are spent. */
  const spent = new Map<string, number>();
  const digestOf = (action: string): string =>
    createHash('sha256').update(action).digest('hex').slice(0, 40);
  return {
    of: (action) => {
      const digest = digestOf(action);
      const count = spent.get(digest) ?? 0;
      return count === 0 ? `meterfeed-${digest}` : `meterfeed-${digest}-${count}`;
    },
    spend: (action) => {
      const digest = digestOf(action);
      spent.set(digest, (spent.get(digest) ?? 0) + 1);
    },
  };
}
