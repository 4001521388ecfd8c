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

/** Counts what a tenant cluster's API brings, and says when it is too much. */
export interface Budget {
  /** Objects that are there already: out of the journal, or from before a pause. */
  adopt(kind: string, objects: Iterable<Projected>): void;
  /** The same connection, of which everything that comes is counted. */
  counted(connection: CountedConnection): CountedConnection;
  /** What it brings is none of Kubernetes' objects: its API is left alone for that reason. */
  refuse(reason: string): void;
  /** Sees the objects of one kind before everybody else. */
  handler<T extends Projected>(kind: string): SourceHandler<T>;
  /** Nothing of the tenant cluster is kept any more. */
  close(): void;
}

type CountedConnection = Pick<Connection, 'request' | 'bytes' | 'stream'>;

export interface BudgetOptions {
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

interface Held {
  objects: number;
  bytes: number;
}

export function createBudget(options: BudgetOptions): Budget {
  const { limits, onExceeded, firstLists, memory, isListed } = options;
  const firstList: FirstList = { isComplete: isListed, onTooMany: onExceeded };
  let firstObjects = 0;
  const kinds = new Map<string, Held>();
  const countChangeRate = createRate(options, limits.changes, PERIOD_MS, 'changes');
  const countReceived = createRate(options, limits.receivedBytes, MINUTE_MS, 'bytes received');
  const countEvent = createRate(options, limits.events, MINUTE_MS, 'events of watches');
  const countRequest = createRate(options, limits.requests, MINUTE_MS, 'requests');

  let changesUntilCount = CHANGES_COUNTED;
  /** While its windows are held nothing that changed is forgotten, however slowly it comes. */
  const countChange = (): void => {
    countChangeRate();
    changesUntilCount -= 1;
    if (changesUntilCount > 0) return;
    changesUntilCount = CHANGES_COUNTED;
    if (options.states() > limits.states) {
      onExceeded(`more than ${limits.states} states of objects since the last closed window`);
    }
  };

  const heldOf = (kind: string): Held => {
    const held = kinds.get(kind) ?? { objects: 0, bytes: 0 };
    kinds.set(kind, held);
    return held;
  };

  const check = (): void => {
    const all = [...kinds.values()];
    const objects = all.reduce((sum, held) => sum + held.objects, 0);
    const bytes = all.reduce((sum, held) => sum + held.bytes, 0);
    const shared = memory.report(firstList, bytes);
    if (objects > limits.objects) onExceeded(`more than ${limits.objects} objects`);
    else if (bytes > limits.bytes) onExceeded(`objects of more than ${limits.bytes} bytes`);
    else if (shared !== undefined) {
      onExceeded(`objects of ${bytes} bytes, more than all APIs leave free of ${shared} bytes`);
    }
  };

  return {
    adopt: (kind, objects) => {
      firstObjects = 0;
      firstLists.report(firstList, 0);
      const held = { objects: 0, bytes: 0 };
      kinds.set(kind, held);
      for (const object of objects) {
        held.objects += 1;
        held.bytes += memoryOf(object);
      }
      check();
    },
    counted: (connection) => ({
      request: (path, asked) => {
        countRequest(1);
        return connection.request(path, { ...asked, onReceived: countReceived });
      },
      bytes: (path, asked) => {
        countRequest(1);
        return connection.bytes(path, { ...asked, onReceived: countReceived });
      },
      stream: async (path, asked) => {
        countRequest(1);
        const outcome = await connection.stream(path, { ...asked, onReceived: countReceived });
        return outcome.kind === 'ok'
          ? { ...outcome, lines: counting(outcome.lines, () => countEvent(1)) }
          : outcome;
      },
    }),
    refuse: onExceeded,
    handler: (kind) => ({
      upserted: (next, previous) => {
        const held = heldOf(kind);
        held.objects += previous === undefined ? 1 : 0;
        held.bytes += memoryOf(next) - (previous === undefined ? 0 : memoryOf(previous));
        countChange();
        check();
        if (previous !== undefined || isListed()) return;
        firstObjects += 1;
        firstLists.report(firstList, firstObjects);
      },
      deleted: (last) => {
        const held = heldOf(kind);
        held.objects -= 1;
        held.bytes -= memoryOf(last);
        countChange();
      },
    }),
    close: () => {
      kinds.clear();
      check();
    },
  };
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
export interface FirstList {
  /** It is complete. */
  readonly isComplete: () => boolean;
  /** There is too much of all first lists, and most of it is here. */
  readonly onTooMany: (reason: string) => void;
}

/**
 * Objects of first lists that are not complete yet, over all tenant clusters: what each of many may
 * take up for itself is more than there is, if all of them make use of it at once.
 */
export interface FirstLists {
  /** So many objects have come by now; 0 when it is broken off. */
  report(list: FirstList, objects: number): void;
}

/** About 75 MiB. */
export const MOST_FIRST_LIST_OBJECTS = 30_000;

export function createFirstLists(most: number = MOST_FIRST_LIST_OBJECTS): FirstLists {
  const lists = new Map<FirstList, number>();
  let sum = 0;

  const put = (list: FirstList, objects: number): void => {
    sum += objects - (lists.get(list) ?? 0);
    if (objects === 0) lists.delete(list);
    else lists.set(list, objects);
  };

  return {
    report: (list, objects) => {
      put(list, objects);
      if (sum <= most) return;
      for (const each of lists.keys()) if (each.isComplete()) put(each, 0);
      if (sum <= most) return;
      const [largest] = [...lists].toSorted(([, a], [, b]) => b - a)[0] ?? [];
      if (largest === undefined) return;
      put(largest, 0);
      largest.onTooMany(
        'too many objects in first lists of all tenant clusters, most of them here',
      );
    },
  };
}
