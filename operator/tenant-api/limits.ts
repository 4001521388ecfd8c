import type { Connection } from '../kubernetes/connection.ts';
import type { Projected, SourceHandler } from '../kubernetes/source.ts';
import { memoryOf, type SharedMemory } from './memory.ts';

/** What one tenant cluster's API may take up in this process. */
export interface TenantLimits {
  /** Objects of all kinds that are kept. */
  readonly objects: number;
  /** Of memory that what is kept of them takes up. */
  readonly bytes: number;
  /** Changes in {@link PERIOD_MS}, over all watches. */
  readonly changes: number;
  /** Bytes received in {@link MINUTE_MS}, kept or not. */
  readonly receivedBytes: number;
  /** Events of watches in {@link MINUTE_MS}, those that change nothing included. */
  readonly events: number;
  /** Pages of lists and beginnings of watches in {@link MINUTE_MS}. */
  readonly requests: number;
  /** States of objects, and devices in them, that are remembered because no closed window has billed them yet. */
  readonly states: number;
}

export const DEFAULT_LIMITS: TenantLimits = {
  objects: 20_000,
  bytes: 64 * 1024 * 1024,
  changes: 20_000,
  // The objects above with 12 KiB each.
  receivedBytes: 256 * 1024 * 1024,
  events: 120_000,
  requests: 3_000,
  // About 40 MiB.
  states: 200_000,
};

/** How many changes come between two counts of the states that are remembered. */
const CHANGES_COUNTED = 1_000;

const PERIOD_MS = 10_000;
const MINUTE_MS = 60_000;

type CountedConnection = Pick<Connection, 'request' | 'bytes' | 'stream'>;

interface BudgetOptions {
  readonly limits: TenantLimits;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Called once for each time that a limit is passed. */
  readonly onExceeded: (reason: string) => void;
  /** Shared with all other tenant clusters. */
  readonly firstLists: FirstLists;
  /** Shared with all other tenant clusters. */
  readonly memory: SharedMemory;
  /** The first lists of this tenant cluster are in. */
  readonly isListed: () => boolean;
  /** How many states of its objects are remembered. */
  readonly states: () => number;
}

/** Counts what a tenant cluster's API brings, and reports when it is too much. */
export class Budget {
  readonly #options: BudgetOptions;
  readonly #firstList: FirstList;
  #firstObjects = 0;
  /** What is kept, by kind. */
  readonly #kinds = new Map<string, { objects: number; bytes: number }>();
  readonly #countChangeRate: (count?: number) => void;
  readonly #countReceived: (count?: number) => void;
  readonly #countEvent: (count?: number) => void;
  readonly #countRequest: (count?: number) => void;
  #changesUntilCount = CHANGES_COUNTED;

  constructor(options: BudgetOptions) {
    const { limits, isListed, onExceeded } = options;
    this.#options = options;
    this.#firstList = { isComplete: isListed, onTooMany: onExceeded };
    this.#countChangeRate = createRate(options, limits.changes, PERIOD_MS, 'changes');
    this.#countReceived = createRate(options, limits.receivedBytes, MINUTE_MS, 'bytes received');
    this.#countEvent = createRate(options, limits.events, MINUTE_MS, 'events of watches');
    this.#countRequest = createRate(options, limits.requests, MINUTE_MS, 'requests');
  }

  /** Objects that are there already: out of the journal, or from before a pause. */
  adopt(kind: string, objects: Iterable<Projected>): void {
    this.#firstObjects = 0;
    this.#options.firstLists.report(this.#firstList, 0);
    const held = { objects: 0, bytes: 0 };
    this.#kinds.set(kind, held);
    for (const object of objects) {
      held.objects += 1;
      held.bytes += memoryOf(object);
    }
    this.#check();
  }

  /** The same connection, of which everything that comes is counted. */
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

  /** What it brings is none of Kubernetes' objects: its API is left alone for that reason. */
  refuse(reason: string): void {
    this.#options.onExceeded(reason);
  }

  /** Sees the objects of one kind before everybody else. */
  handler<T extends Projected>(kind: string): SourceHandler<T> {
    return {
      upserted: (next, previous) => {
        const held = this.#heldOf(kind);
        held.objects += previous === undefined ? 1 : 0;
        held.bytes += memoryOf(next) - (previous === undefined ? 0 : memoryOf(previous));
        this.#countChange();
        this.#check();
        if (previous !== undefined || this.#options.isListed()) return;
        this.#firstObjects += 1;
        this.#options.firstLists.report(this.#firstList, this.#firstObjects);
      },
      deleted: (last) => {
        const held = this.#heldOf(kind);
        held.objects -= 1;
        held.bytes -= memoryOf(last);
        this.#countChange();
      },
    };
  }

  /** Nothing of the tenant cluster is kept any more. */
  close(): void {
    this.#kinds.clear();
    this.#check();
  }

  /** While its windows are held nothing that changed is forgotten, however slowly it comes. */
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

  #heldOf(kind: string): { objects: number; bytes: number } {
    const held = this.#kinds.get(kind) ?? { objects: 0, bytes: 0 };
    this.#kinds.set(kind, held);
    return held;
  }

  #check(): void {
    const { limits, memory, onExceeded } = this.#options;
    const all = [...this.#kinds.values()];
    const objects = all.reduce((sum, held) => sum + held.objects, 0);
    const bytes = all.reduce((sum, held) => sum + held.bytes, 0);
    const shared = memory.report(this.#firstList, bytes);
    if (objects > limits.objects) onExceeded(`more than ${limits.objects} objects`);
    else if (bytes > limits.bytes) onExceeded(`objects of more than ${limits.bytes} bytes`);
    else if (shared !== undefined) {
      onExceeded(`objects of ${bytes} bytes, more than all APIs leave free of ${shared} bytes`);
    }
  }
}

/** Counts, and tells once in each period that it is too much. */
function createRate(
  { now, onExceeded }: Pick<BudgetOptions, 'now' | 'onExceeded'>,
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

/** The first list of one tenant cluster's API, while it comes in. */
interface FirstList {
  /** It is complete. */
  readonly isComplete: () => boolean;
  /** There is too much of all first lists, and most of it is here. */
  readonly onTooMany: (reason: string) => void;
}

/** About 75 MiB. */
export const MOST_FIRST_LIST_OBJECTS = 30_000;

/**
 * Objects of first lists that are not complete yet, over all tenant clusters: what each of many may
 * take up for itself is more than there is, if all of them make use of it at once.
 */
export class FirstLists {
  readonly #most: number;
  readonly #lists = new Map<FirstList, number>();
  #sum = 0;

  constructor(most: number = MOST_FIRST_LIST_OBJECTS) {
    this.#most = most;
  }

  /** So many objects have come by now; 0 when it is broken off. */
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
