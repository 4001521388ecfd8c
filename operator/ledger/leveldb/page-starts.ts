import type { TimeBounds } from './state.ts';

/** Consecutive events of a page; few enough that a query of one window is answered at once. */
export const PAGE_EVENTS = 4_096;

/**
 * Remembers the range of window starts of each page of events. A segment has the events of a day,
 * and a question about one window would otherwise read all of them. Sources, none of which is
 * stored, because events never change:
 * 1. The active segment: its check at the start.
 * 2. New events: as they are stored.
 * 3. Older segments: the first question about them.
 */
export class PageStarts {
  readonly #pages = new Map<number, TimeBounds>();
  /** The incomplete page whose events arrive one by one, up to the last one. */
  #current: { readonly last: number; readonly range: TimeBounds } | undefined;

  /** The last sequence number of this number's page. */
  lastOf(sequence: number): number {
    return pageOf(sequence) * PAGE_EVENTS + PAGE_EVENTS;
  }

  /** Remembers window starts of the events `first` to `last`, if they are one complete page. */
  learn(first: number, last: number, starts: readonly number[]): void {
    const page = pageOf(first);
    if (first !== page * PAGE_EVENTS + 1 || last !== this.lastOf(first)) return;
    let [from, to] = [Infinity, -Infinity];
    for (const start of starts) {
      from = Math.min(from, start);
      to = Math.max(to, start);
    }
    this.#pages.set(page, { from, to });
  }

  /** Adds the window start of one stored event. A page counts once all its events came in order. */
  note(sequence: number, start: number): void {
    const isFirst = sequence === pageOf(sequence) * PAGE_EVENTS + 1;
    const before = this.#current?.last === sequence - 1 ? this.#current.range : undefined;
    const range = isFirst ? { from: start, to: start } : before && widened(before, start);
    this.#current = range && { last: sequence, range };
    if (range !== undefined && sequence === this.lastOf(sequence)) {
      this.#pages.set(pageOf(sequence), range);
    } else {
      this.#pages.delete(pageOf(sequence));
    }
  }

  /** True if it is certain that no window of this number's page starts in `[from, to)`. */
  hasNone(sequence: number, from: number, to: number): boolean {
    const starts = this.#pages.get(pageOf(sequence));
    return starts !== undefined && (starts.from >= to || starts.to < from);
  }

  /** Forgets the pages of deleted events: all pages before this number. */
  forgetBefore(sequence: number): void {
    for (const page of this.#pages.keys()) {
      if (page < pageOf(sequence)) this.#pages.delete(page);
    }
  }
}

function widened({ from, to }: TimeBounds, time: number): TimeBounds {
  return { from: Math.min(from, time), to: Math.max(to, time) };
}

function pageOf(sequence: number): number {
  return Math.floor((sequence - 1) / PAGE_EVENTS);
}
