/**
 * How a stand-in misbehaves instead of answering like its vendor. `commit-then-…` handles the
 * request first: it has its effect, and the caller gets no answer.
 */
export type MisbehaviourKind =
  | 'status'
  | 'reset'
  | 'hang'
  | 'commit-then-reset'
  | 'commit-then-hang'
  | 'commit-then-status';

export interface Misbehaviour {
  readonly kind: MisbehaviourKind;
  /** Matches only requests with this method and a path with this prefix. */
  readonly method?: string;
  readonly path?: string;
  /** How many requests; endless when absent. */
  readonly times?: number;
  /** Misbehave only on every n-th matching request. */
  readonly every?: number;
  /** For the kinds with a status. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Misbehaviours {
  add(misbehaviour: Misbehaviour): void;
  /** Ends all misbehaviour. */
  clear(): void;
  /** Returns the next misbehaviour for a request, oldest orders first, and counts it. */
  next(method: string, path: string): Misbehaviour | undefined;
}

export function createMisbehaviours(): Misbehaviours {
  let orders: { readonly order: Misbehaviour; seen: number; done: number }[] = [];
  return {
    add: (order) => void orders.push({ order, seen: 0, done: 0 }),
    clear: () => {
      orders = [];
    },
    next: (method, path) => {
      for (const entry of orders) {
        const { order } = entry;
        if (order.method !== undefined && order.method !== method) continue;
        if (order.path !== undefined && !path.startsWith(order.path)) continue;
        if (entry.done >= (order.times ?? Number.POSITIVE_INFINITY)) continue;
        entry.seen += 1;
        if (entry.seen % (order.every ?? 1) !== 0) continue;
        entry.done += 1;
        return order;
      }
      return undefined;
    },
  };
}
