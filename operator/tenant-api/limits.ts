import type { Connection } from '../kubernetes/connection.ts';
import type { Projected, SourceHandler } from '../kubernetes/source.ts';
import { encodeJson } from '../observation/journal-text.ts';
import type { FirstList, FirstLists } from './first-lists.ts';

/** What one tenant cluster's API may take up in this process. */
export interface TenantLimits {
  /** Objects of all kinds that are kept. */
  readonly objects: number;
  /** Of what is kept of them, as text. */
  readonly bytes: number;
  /** Changes in {@link PERIOD_MS}, over all watches. */
  readonly changes: number;
}

export const DEFAULT_LIMITS: TenantLimits = {
  objects: 20_000,
  bytes: 64 * 1024 * 1024,
  changes: 20_000,
};

const PERIOD_MS = 10_000;

/** Counts what a tenant cluster's API brings, and says when it is too much. */
export interface Budget {
  /** Objects that are there already: out of the journal, or from before a pause. */
  adopt(kind: string, objects: Iterable<Projected>): void;
  /** Sees the objects of one kind before everybody else. */
  handler<T extends Projected>(kind: string): SourceHandler<T>;
}

export interface BudgetOptions {
  readonly limits: TenantLimits;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Told once for each time that a limit is passed. */
  readonly onExceeded: (reason: string) => void;
  /** Shared with all other tenant clusters. */
  readonly firstLists: FirstLists;
  /** The first lists of this tenant cluster are in. */
  readonly isListed: () => boolean;
}

interface Held {
  objects: number;
  bytes: number;
}

export function createBudget(options: BudgetOptions): Budget {
  const { limits, now, onExceeded, firstLists, isListed } = options;
  const firstList: FirstList = { isComplete: isListed, onTooMany: onExceeded };
  let firstObjects = 0;
  const kinds = new Map<string, Held>();
  let periodBegan = -Infinity;
  let changes = 0;

  const heldOf = (kind: string): Held => {
    const held = kinds.get(kind) ?? { objects: 0, bytes: 0 };
    kinds.set(kind, held);
    return held;
  };

  const countChange = (): void => {
    if (now() - periodBegan >= PERIOD_MS) {
      periodBegan = now();
      changes = 0;
    }
    changes += 1;
    if (changes === limits.changes + 1) {
      onExceeded(`more than ${limits.changes} changes in ${PERIOD_MS / 1000} seconds`);
    }
  };

  const check = (): void => {
    const all = [...kinds.values()];
    const objects = all.reduce((sum, held) => sum + held.objects, 0);
    const bytes = all.reduce((sum, held) => sum + held.bytes, 0);
    if (objects > limits.objects) onExceeded(`more than ${limits.objects} objects`);
    else if (bytes > limits.bytes) onExceeded(`objects of more than ${limits.bytes} bytes`);
  };

  return {
    adopt: (kind, objects) => {
      firstObjects = 0;
      firstLists.report(firstList, 0);
      const held = { objects: 0, bytes: 0 };
      kinds.set(kind, held);
      for (const object of objects) {
        held.objects += 1;
        held.bytes += sizeOf(object);
      }
      check();
    },
    handler: (kind) => ({
      upserted: (next, previous) => {
        const held = heldOf(kind);
        held.objects += previous === undefined ? 1 : 0;
        held.bytes += sizeOf(next) - (previous === undefined ? 0 : sizeOf(previous));
        countChange();
        check();
        if (previous !== undefined || isListed()) return;
        firstObjects += 1;
        firstLists.report(firstList, firstObjects);
      },
      deleted: (last) => {
        const held = heldOf(kind);
        held.objects -= 1;
        held.bytes -= sizeOf(last);
        countChange();
      },
    }),
  };
}

function sizeOf(object: Projected): number {
  return encodeJson(object).length;
}

/**
 * The same connection, on which a core resource is always served: an API server that knows no nodes
 * is none, and must not be taken to have none.
 */
export function withoutAbsence(
  connection: Pick<Connection, 'request' | 'stream'>,
): Pick<Connection, 'request' | 'stream'> {
  const present = <T extends { readonly kind: string }>(outcome: T) =>
    outcome.kind === 'status' && 'code' in outcome && outcome.code === 404
      ? ({ kind: 'network', message: 'HTTP 404: the server is no Kubernetes API' } as const)
      : outcome;
  return {
    request: async (path, options) => present(await connection.request(path, options)),
    stream: async (path, options) => present(await connection.stream(path, options)),
  };
}
