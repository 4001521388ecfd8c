import type { Projected, SourceHandler } from '../kubernetes/source.ts';

/** A handler that is told only of objects that concern it; which ones do must not change in their lives. */
export function only<T extends Projected>(
  concerns: (object: T) => boolean,
  handler: SourceHandler<T>,
): SourceHandler<T> {
  return {
    upserted: (next, previous, arrival) => {
      if (concerns(next)) handler.upserted(next, previous, arrival);
    },
    deleted: (last, arrival) => {
      if (concerns(last)) handler.deleted(last, arrival);
    },
  };
}
