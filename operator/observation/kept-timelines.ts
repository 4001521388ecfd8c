import type { Projected } from '../kubernetes/source.ts';
import { TimelineIndex } from './timeline-index.ts';
import { type Span, spansAfter, type Timeline } from './timeline.ts';
import type { Tracked } from './timelines.ts';
import { UnwrittenTimelines } from './unwritten-timelines.ts';

/** How long a timeline whose object is gone is kept, so that a tenant cluster found late still gets it. */
const GONE_KEPT_MS = 120_000;

/** How far back state changes of a live object are kept for late facts. */
const SPANS_KEPT_MS = 600_000;

/** The timelines of one kind: which there are, which of them are late, and which are to be forgotten some time. */
export class KeptTimelines<T extends Projected, S> {
  /** To look them up in, and to be told of changes: what comes and goes does so by {@link add} and {@link drop}. */
  readonly index = new TimelineIndex<T, S>();
  /** What of them the journal does not have. */
  readonly unwritten = new UnwrittenTimelines<T, S>();
  /** Those of which closed windows billed something else. */
  readonly #late = new Set<Tracked<T, S>>();
  /** Those that are gone, or of which something has ended: {@link settle} forgets it some time. */
  readonly #passing = new Set<Tracked<T, S>>();

  late(): Iterable<Tracked<T, S>> {
    return this.#late;
  }

  /** One that is not there yet. */
  add(timeline: Tracked<T, S>): void {
    this.index.add(timeline);
    this.unwritten.add(timeline);
    if (isPassing(timeline)) this.#passing.add(timeline);
    if (timeline.billed !== undefined) this.#late.add(timeline);
  }

  /** To be called when its spans may have been replaced, or the object is gone. */
  noteSpans(timeline: Tracked<T, S>): void {
    if (isPassing(timeline)) this.#passing.add(timeline);
  }

  /** Closed windows billed this; undefined: they billed it as it stands. */
  setBilled(timeline: Tracked<T, S>, billed: readonly Span<S>[] | undefined): void {
    timeline.billed = billed;
    if (billed === undefined) this.#late.delete(timeline);
    else this.#late.add(timeline);
  }

  /**
   * In these namespaces everything is billed as it stands. Forgets what no late fact can change any more that ended long
   * before `keptFrom`, but nothing that `isNeeded` after a time.
   */
  settle(
    isSettled: (namespace: string) => boolean,
    keptFrom: number,
    isNeeded: (object: T, horizon: number) => boolean,
  ): void {
    for (const timeline of this.#late) {
      if (!isSettled(timeline.namespace)) continue;
      this.setBilled(timeline, undefined);
      // The journal may know it as late: after a restart it would be settled once more.
      this.unwritten.noteChanged(timeline);
    }
    const horizon = goneHorizon(keptFrom);
    for (const timeline of this.#passing) {
      if (!isSettled(timeline.namespace)) continue;
      if (timeline.gone && isNeeded(timeline.view, horizon)) continue;
      timeline.spans = spansAfter(timeline.spans, keptFrom - SPANS_KEPT_MS);
      if (isLongGone(timeline, horizon)) this.drop(timeline);
      else if (!isPassing(timeline)) this.#passing.delete(timeline);
    }
  }

  /** One that is there: it is forgotten, late or not. */
  drop(timeline: Tracked<T, S>): void {
    this.index.remove(timeline);
    this.unwritten.remove(timeline);
    this.#late.delete(timeline);
    this.#passing.delete(timeline);
  }

  /** Forgets all there is, of which the journal has nothing. */
  clear(): void {
    this.index.clear();
    this.unwritten.clear();
    this.#late.clear();
    this.#passing.clear();
  }
}

/** What is gone and ended no later is forgotten, once windows are closed up to `settled`. */
function goneHorizon(settled: number): number {
  return settled - GONE_KEPT_MS;
}

/** Whether the object is gone, and had ended by then. */
function isLongGone({ gone, spans, versionAt }: Timeline<unknown>, horizon: number): boolean {
  return gone && (spans.at(-1)?.to ?? versionAt) <= horizon;
}

/** Whether something of it is to be forgotten once it is long ago. */
function isPassing({ gone, spans }: Timeline<unknown>): boolean {
  const [first] = spans;
  return gone || (first !== undefined && first.to < Infinity);
}
