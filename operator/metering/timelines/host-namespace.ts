import type { HostNamespace } from '../../discovery/views.ts';
import type { SourceHandler } from '../../kubernetes/source.ts';
import type { Sighting } from './sighting.ts';
import { change, currentState, enter, type Timeline, widthOf } from './timeline.ts';
import type { Timelines } from './timelines.ts';

/** What a Namespace says of itself, by which discovery decides whose it is. */
export interface NamespaceState {
  /** Its labels, and the annotations that are kept, as JSON. */
  readonly metadata: string;
}

/** The Namespaces of the host cluster: what each said, from when to when. */
export type HostNamespaces = Timelines<HostNamespace, NamespaceState>;

/** Follows what a Namespace says of itself; what is first seen is known from then on only. */
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
 * Takes what the watch of Namespaces tells. One that a watch says is gone may count as gone from then on:
 * it went after all that was in it. One that a list misses may have lost its labels before.
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

/** A moment, and how far off it may be where nobody saw it; milliseconds. */
export interface UncertainMoment {
  readonly at: number;
  readonly uncertain: number;
}

/** When Namespaces of the host cluster changed what they say, by their names. */
export class NamespaceChanges {
  readonly #byName: ReadonlyMap<string, readonly Timeline<NamespaceState>[]>;

  /** As they are now. */
  constructor(namespaces: Pick<HostNamespaces, 'inNamespace'>) {
    this.#byName = Map.groupBy(namespaces.inNamespace(''), ({ name }) => name);
  }

  /**
   * Until when at the least a Namespace said what it said at `time`; infinite while it does, undefined where
   * nobody has seen a Namespace of that name. Of one that was not followed yet nobody knows more than that.
   */
  statedUntil(name: string, time: number): UncertainMoment | undefined {
    const timelines = this.#byName.get(name);
    if (timelines === undefined) return undefined;
    const spans = timelines.flatMap((timeline) => timeline.spans);
    const stated = spans.findLast(
      ({ from, to, unsureTo: uncertainTo = 0 }) => from <= time && to + uncertainTo > time,
    );
    // Another one of the same name may have been there that much earlier than it is known to be.
    const later = spans.filter((span) => span !== stated && span.from > time);
    const earliest = later.map(({ from, unsureFrom: uncertainFrom = 0 }) => from - uncertainFrom);
    const at = Math.max(time, Math.min(stated?.to ?? time, ...earliest));
    const lastEnd = stated === undefined ? Infinity : stated.to + (stated.unsureTo ?? 0);
    const latest = Math.min(lastEnd, ...later.map(({ from }) => from));
    return { at, uncertain: latest === Infinity ? 0 : Math.max(0, latest - at) };
  }

  /**
   * Since when at the latest a Namespace says what it says now, or said in the end, and whether it has ever said anything
   * else; undefined where nobody has seen it.
   */
  saysSince(name: string): (UncertainMoment & { readonly always: boolean }) | undefined {
    const timelines = this.#byName.get(name) ?? [];
    const endOf = ({ spans }: Timeline<NamespaceState>): number => spans.at(-1)?.to ?? 0;
    const spans = timelines.toSorted((a, b) => endOf(a) - endOf(b)).at(-1)?.spans;
    const now = spans?.at(-1);
    return now && { at: now.from, uncertain: now.unsureFrom ?? 0, always: spans?.length === 1 };
  }
}
