import type { Connection } from '../kubernetes/connection.ts';
import type { Projected, SourceHandler } from '../kubernetes/source.ts';
import { memoryOf, type SharedMemory } from './memory.ts';

/** Limits of one tenant cluster's API in this process. */
export interface TenantLimits {
  /** Stored objects of all kinds. */
  readonly objects: number;
  /** Memory of the stored objects, bytes. */
  readonly bytes: number;
  /** Changes in {@link PERIOD_MS}, over all watches. */
  readonly changes: number;
  /** Bytes received in {@link MINUTE_MS}, stored or not. */
  readonly receivedBytes: number;
  /** Watch events in {@link MINUTE_MS}, including those without a change. */
  readonly events: number;
  /** Pages of lists and starts of watches in {@link MINUTE_MS}. */
  readonly requests: number;
  /** States of objects and of their devices, stored until a closed window has billed them. */
  readonly states: number;
}

export const DEFAULT_LIMITS: TenantLimits = {
  objects: 20_000,
  bytes: 64 * 1024 * 1024,
  changes: 20_000,
  // The objects above, with 12 KiB each.
  receivedBytes: 256 * 1024 * 1024,
  events: 120_000,
  requests: 3_000,
  // About 40 MiB.
  states: 200_000,
};

/** Changes between two counts of the stored states. */
const CHANGES_COUNTED = 1_000;

const PERIOD_MS = 10_000;
const MINUTE_MS = 60_000;

type CountedConnection = Pick<Connection, 'request' | 'bytes' | 'stream'>;

interface ApiLimiterOptions {
  readonly limits: TenantLimits;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Called once each time a limit is exceeded. */
  readonly onExceeded: (reason: string) => void;
  /** Shared with all other tenant clusters. */
  readonly firstLists: FirstLists;
  /** Shared with all other tenant clusters. */
  readonly memory: SharedMemory;
  /** Returns whether the first lists of this tenant cluster have arrived. */
  readonly isListed: () => boolean;
  /** Returns the number of stored states. */
  readonly states: () => number;
}

/** Counts the objects and traffic of a tenant cluster's API, and reports exceeded limits. */
export class ApiLimiter {
  readonly #options: ApiLimiterOptions;
  readonly #firstList: FirstList;
  #firstObjects = 0;
  readonly #kinds = new Map<string, { objects: number; bytes: number }>();
  readonly #countChangeRate: (count?: number) => void;
  readonly #countReceived: (count?: number) => void;
  readonly #countEvent: (count?: number) => void;
  readonly #countRequest: (count?: number) => void;
  #changesUntilCount = CHANGES_COUNTED;

  constructor(options: ApiLimiterOptions) {
    const { limits, isListed, onExceeded } = options;
    this.#options = options;
    this.#firstList = { isComplete: isListed, onTooMany: onExceeded };
    this.#countChangeRate = createRate(options, limits.changes, PERIOD_MS, 'changes');
    this.#countReceived = createRate(options, limits.receivedBytes, MINUTE_MS, 'bytes received');
    this.#countEvent = createRate(options, limits.events, MINUTE_MS, 'events of watches');
    this.#countRequest = createRate(options, limits.requests, MINUTE_MS, 'requests');
  }

  /** Counts objects that exist already, from the journal or from before a pause. */
  adopt(kind: string, objects: Iterable<Projected>): void {
    this.#firstObjects = 0;
    this.#options.firstLists.report(this.#firstList, 0);
    const counts = { objects: 0, bytes: 0 };
    this.#kinds.set(kind, counts);
    for (const object of objects) {
      counts.objects += 1;
      counts.bytes += memoryOf(object);
    }
    this.#check();
  }

  /** The same connection, with everything received counted. */
  counted(connection: CountedConnection): CountedConnection {
    const onReceived = this.#countReceived;
    return {
      request: (path, requested) => {
        this.#countRequest();
        return connection.request(path, { ...requested, onReceived });
      },
      bytes: (path, requested) => {
        this.#countRequest();
        return connection.bytes(path, { ...requested, onReceived });
      },
      stream: async (path, requested) => {
        this.#countRequest();
        const outcome = await connection.stream(path, { ...requested, onReceived });
        return outcome.kind === 'ok'
          ? { ...outcome, lines: counting(outcome.lines, this.#countEvent) }
          : outcome;
      },
    };
  }

  /** Suspends the API for a reason other than a count. */
  refuse(reason: string): void {
    this.#options.onExceeded(reason);
  }

  /** Counts the objects of one kind. It must run before all other handlers. */
  handler<T extends Projected>(kind: string): SourceHandler<T> {
    return {
      upserted: (next, previous) => {
        const counts = this.#countsOf(kind);
        counts.objects += previous === undefined ? 1 : 0;
        counts.bytes += memoryOf(next) - (previous === undefined ? 0 : memoryOf(previous));
        this.#countChange();
        this.#check();
        if (previous !== undefined || this.#options.isListed()) return;
        this.#firstObjects += 1;
        this.#options.firstLists.report(this.#firstList, this.#firstObjects);
      },
      deleted: (last) => {
        const counts = this.#countsOf(kind);
        counts.objects -= 1;
        counts.bytes -= memoryOf(last);
        this.#countChange();
      },
    };
  }

  /** Forgets everything of the tenant cluster. */
  close(): void {
    this.#kinds.clear();
    this.#check();
  }

  /** While its windows wait, every changed state stays stored, however slowly changes arrive. */
  #countChange(): void {
    const { limits, states, onExceeded } = this.#options;
    this.#countChangeRate();
    this.#changesUntilCount -= 1;
    if (this.#changesUntilCount > 0) return;
    this.#changesUntilCount = CHANGES_COUNTED;
    if (states() > limits.states) {
      onExceeded(`more than ${limits.states} states of objects since the last closed window`);
    }
  }

  #countsOf(kind: string): { objects: number; bytes: number } {
    const counts = this.#kinds.get(kind) ?? { objects: 0, bytes: 0 };
    this.#kinds.set(kind, counts);
    return counts;
  }

  #check(): void {
    const { limits, memory, onExceeded } = this.#options;
    const all = [...this.#kinds.values()];
    const objects = all.reduce((sum, counts) => sum + counts.objects, 0);
    const bytes = all.reduce((sum, counts) => sum + counts.bytes, 0);
    const shared = memory.report(this.#firstList, bytes);
    if (objects > limits.objects) onExceeded(`more than ${limits.objects} objects`);
    else if (bytes > limits.bytes) onExceeded(`objects of more than ${limits.bytes} bytes`);
    else if (shared !== undefined) {
      onExceeded(
        `objects of ${bytes} bytes, more than is free of the ${shared} bytes for all APIs`,
      );
    }
  }
}

/** Counts, and reports an exceeded rate once in each period. */
function createRate(
  { now, onExceeded }: Pick<ApiLimiterOptions, 'now' | 'onExceeded'>,
  most: number,
  periodMs: number,
  what: string,
): (count?: number) => void {
  let began = -Infinity;
  let counted = 0;
  return (count = 1) => {
    if (now() - began >= periodMs) {
      began = now();
      counted = 0;
    }
    const before = counted;
    counted += count;
    if (before > most || counted <= most) return;
    onExceeded(`more than ${most} ${what} in ${periodMs / 1000} seconds`);
  };
}

async function* counting(lines: AsyncIterable<string>, count: () => void): AsyncGenerator<string> {
  for await (const line of lines) {
    count();
    yield line;
  }
}

/** The first list of one tenant cluster's API, while it arrives. */
interface FirstList {
  readonly isComplete: () => boolean;
  /** Called when all first lists together are too large and this one is the largest. */
  readonly onTooMany: (reason: string) => void;
}

/** About 75 MiB. */
export const MOST_FIRST_LIST_OBJECTS = 30_000;

/**
 * Counts the objects of incomplete first lists over all tenant clusters. If many used their single
 * limits at once, memory would not suffice.
 */
export class FirstLists {
  readonly #most: number;
  readonly #lists = new Map<FirstList, number>();
  #sum = 0;

  constructor(most: number = MOST_FIRST_LIST_OBJECTS) {
    this.#most = most;
  }

  /** Reports how many objects of a list have arrived; 0 after it was broken off. */
  report(list: FirstList, objects: number): void {
    this.#put(list, objects);
    if (this.#sum <= this.#most) return;
    for (const each of this.#lists.keys()) if (each.isComplete()) this.#put(each, 0);
    if (this.#sum <= this.#most) return;
    const [largest] = [...this.#lists].toSorted(([, a], [, b]) => b - a)[0] ?? [];
    if (largest === undefined) return;
    this.#put(largest, 0);
    largest.onTooMany('too many objects in first lists of all tenant clusters, most of them here');
  }

  #put(list: FirstList, objects: number): void {
    this.#sum += objects - (this.#lists.get(list) ?? 0);
    if (objects === 0) this.#lists.delete(list);
    else this.#lists.set(list, objects);
  }
}
