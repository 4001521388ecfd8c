import type { HostNamespace } from '../../discovery/views.ts';
import type { SourceHandler } from '../../kubernetes/source.ts';
import type { Sighting } from './sighting.ts';
import { change, currentState, enter, type Timeline, widthOf } from './timeline.ts';
import type { Timelines } from './timelines.ts';

/** The metadata of a Namespace by which discovery decides its owner. */
export interface NamespaceState {
  /** Its labels and the stored annotations, as JSON. */
  readonly metadata: string;
}

/** The metadata of each Namespace of the host cluster over time. */
export type HostNamespaces = Timelines<HostNamespace, NamespaceState>;

/** Follows the metadata of a Namespace. The first version counts only from when it was seen. */
export function followNamespace(
  timeline: Timeline<NamespaceState>,
  { metadata }: HostNamespace,
  seen: Sighting,
): void {
  const state = { metadata: JSON.stringify([metadata.labels, metadata.annotations]) };
  const before = currentState(timeline);
  if (before === undefined) enter(timeline, state, seen.until, widthOf(seen));
  else if (before.metadata !== state.metadata) change(timeline, state, seen, () => undefined);
}

/**
 * Feeds the watch of Namespaces into their timelines.
 * 1. A live delete event ends the Namespace at that moment: it goes after everything in it.
 * 2. A Namespace that a list misses ends at an unknown moment, because it may have lost its labels
 *    before.
 */
export function namespaceHandler(namespaces: HostNamespaces): SourceHandler<HostNamespace> {
  return {
    upserted: (next, previous, arrival) => namespaces.upserted(next, previous, arrival),
    deleted: (last, arrival) => {
      const { happened: _unseen, ...live } = arrival;
      namespaces.deleted(last, arrival.late ? arrival : live);
    },
  };
}

/** A moment and the width of its uncertainty, where nobody observed it; milliseconds. */
export interface UncertainMoment {
  readonly at: number;
  readonly uncertain: number;
}

/** When the metadata of Namespaces of the host cluster changed, by name. */
export class NamespaceChanges {
  readonly #byName: ReadonlyMap<string, readonly Timeline<NamespaceState>[]>;

  /** Reads the timelines once; later changes are not included. */
  constructor(namespaces: Pick<HostNamespaces, 'inNamespace'>) {
    this.#byName = Map.groupBy(namespaces.inNamespace(''), ({ name }) => name);
  }

  /**
   * Until when, at the least, a Namespace kept the metadata that it had at `time`.
   * 1. Infinity while it still has it.
   * 2. `time` itself where the Namespace was not followed at that time.
   * 3. Undefined where no Namespace of the name was ever seen.
   */
  statedUntil(name: string, time: number): UncertainMoment | undefined {
    const timelines = this.#byName.get(name);
    if (timelines === undefined) return undefined;
    const spans = timelines.flatMap((timeline) => timeline.spans);
    const stated = spans.findLast(
      ({ from, to, uncertainTo = 0 }) => from <= time && to + uncertainTo > time,
    );
    // Another Namespace of the name may have existed by that much earlier.
    const later = spans.filter((span) => span !== stated && span.from > time);
    const earliest = later.map(({ from, uncertainFrom = 0 }) => from - uncertainFrom);
    const at = Math.max(time, Math.min(stated?.to ?? time, ...earliest));
    const lastEnd = stated === undefined ? Infinity : stated.to + (stated.uncertainTo ?? 0);
    const latest = Math.min(lastEnd, ...later.map(({ from }) => from));
    return { at, uncertain: latest === Infinity ? 0 : Math.max(0, latest - at) };
  }

  /**
   * Since when, at the latest, a Namespace has its newest metadata; undefined where it was never
   * seen. `always` is true where it has had no other.
   */
  statedSince(name: string): (UncertainMoment & { readonly always: boolean }) | undefined {
    const timelines = this.#byName.get(name) ?? [];
    const endOf = ({ spans }: Timeline<NamespaceState>): number => spans.at(-1)?.to ?? 0;
    const spans = timelines.toSorted((a, b) => endOf(a) - endOf(b)).at(-1)?.spans;
    const now = spans?.at(-1);
    return now && { at: now.from, uncertain: now.uncertainFrom ?? 0, always: spans?.length === 1 };
  }
}
