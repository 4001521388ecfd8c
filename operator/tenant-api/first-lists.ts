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
