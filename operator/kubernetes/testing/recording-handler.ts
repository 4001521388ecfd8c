import type { Arrival, Projected, SourceHandler } from '../source.ts';

export interface RecordedChange<T> {
  readonly kind: 'upserted' | 'deleted';
  readonly object: T;
  readonly previous?: T;
  readonly arrival: Arrival;
}

/** A handler that records its changes and lets a test wait for them. */
export interface RecordingHandler<T extends Projected> extends SourceHandler<T> {
  readonly changes: readonly RecordedChange<T>[];
  /** `upserted a/x`, `deleted a/x`, …, in order. */
  readonly log: readonly string[];
  until(holds: () => boolean): Promise<void>;
  /** Resolves with the change once it was reported. */
  received(kind: RecordedChange<T>['kind'], name: string): Promise<RecordedChange<T>>;
}

export function createRecordingHandler<T extends Projected>(): RecordingHandler<T> {
  const changes: RecordedChange<T>[] = [];
  const waiting = new Set<() => void>();

  function add(change: RecordedChange<T>): void {
    changes.push(change);
    for (const check of waiting) check();
  }

  function until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!holds()) return;
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      check();
    });
  }

  return {
    changes,
    get log() {
      return changes.map(({ kind, object }) => `${kind} ${object.namespace}/${object.name}`);
    },
    upserted: (object, previous, arrival) => add({ kind: 'upserted', object, previous, arrival }),
    deleted: (object, arrival) => add({ kind: 'deleted', object, arrival }),
    until,
    received: async (kind, name) => {
      const find = (): RecordedChange<T> | undefined =>
        changes.find((change) => change.kind === kind && change.object.name === name);
      await until(() => find() !== undefined);
      const found = find();
      if (found === undefined) throw new Error('unreachable: it was just found');
      return found;
    },
  };
}
