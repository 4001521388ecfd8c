import { createHash } from 'node:crypto';

/**
 * Keys by which Stripe recognises a request that is made again (facts 2.1). A key is made of what is
 * asked alone, so that it is the same after a crash. Stripe keeps what it answered for a day, a failure
 * of its own included, and gives it again to the same key: then the key is spent.
 */
export interface IdempotencyKeys {
  of(action: string): string;
  spend(action: string): void;
  /** The action is done; its key is not needed again. */
  forget(action: string): void;
}

export function createIdempotencyKeys(): IdempotencyKeys {
  /** How many keys of an action are spent. */
  const spent = new Map<string, number>();
  return {
    of: (action) => {
      const count = spent.get(action) ?? 0;
      return count === 0 ? action : `${action}-${count + 1}`;
    },
    spend: (action) => void spent.set(action, (spent.get(action) ?? 0) + 1),
    forget: (action) => void spent.delete(action),
  };
}

/** The name of an action that consists of a request. */
export function actionOf(path: string, body: string): string {
  const digest = createHash('sha256').update(`${path}\0${body}`).digest('hex').slice(0, 40);
  return `meterfeed-${digest}`;
}
