import type { TimeRange } from './state.ts';

/** Events whose numbers follow each other; small enough that reading one answers a question about a window at once. */
export const PAGE_EVENTS = 4_096;

/**
 * Which windows each page of events holds: a segment has the events of a day, and a question about one
 * window would read all of them every time. It is learnt of the active segment as its events are checked at
 * the start, of events as they are stored, and of older segments by the first question. Nothing of it is
 * stored, because events never change.
 */
export class PageStarts {
  readonly #pages = new Map<number, TimeRange>();
  /** The page whose events come one by one, up to the last that came. */
  #current: { readonly last: number; readonly range: TimeRange } | undefined;

  /** The last number of the page that this number is in. */
  lastOf(sequence: number): number {
    return pageOf(sequence) * PAGE_EVENTS + PAGE_EVENTS;
  }

  /** Remembers the window starts of the events from `first` to `last`, if they are a whole page. */
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

  /** Takes in the window start of a stored event; those of a page count once all have come one after another. */
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

  /** Whether it is known that no window of this number's page starts in `[from, to)`. */
  hasNone(sequence: number, from: number, to: number): boolean {
    const starts = this.#pages.get(pageOf(sequence));
    return starts !== undefined && (starts.from >= to || starts.to < from);
  }

  /** Forgets the pages of events that are deleted: all before this number. */
  forgetBefore(sequence: number): void {
    for (const page of this.#pages.keys()) {
      if (page < pageOf(sequence)) this.#pages.delete(page);
    }
  }
}

function widened({ from, to }: TimeRange, time: number): TimeRange {
  return { from: Math.min(from, time), to: Math.max(to, time) };
}

function pageOf(sequence: number): number {
  return Math.floor((sequence - 1) / PAGE_EVENTS);
}
