import type { Projected } from '../kubernetes/source.ts';
import type { Drained, Tracked } from './timelines.ts';

/** What the journal does not have yet of the timelines of one kind: what has changed of them, and which it has to forget. */
export class UnwrittenTimelines<T extends Projected, S> {
  /** Those that are `dirty`: a few of a great many. */
  readonly #dirty = new Set<Tracked<T, S>>();
  readonly #removed = new Set<string>();

  has(timeline: Tracked<T, S>): boolean {
    return this.#dirty.has(timeline);
  }

  /** It has changed. */
  noteChanged(timeline: Tracked<T, S>): void {
    timeline.dirty = true;
    this.#dirty.add(timeline);
  }

  /** It is kept from now on; what the journal has of it is not forgotten any more. */
  add(timeline: Tracked<T, S>): void {
    this.#removed.delete(timeline.uid);
    if (timeline.dirty) this.#dirty.add(timeline);
  }

  /** The journal has it as it is. */
  noteWritten(timeline: Tracked<T, S>): void {
    timeline.dirty = false;
    this.#dirty.delete(timeline);
  }

  /** It is kept no more: the journal forgets it. */
  remove(timeline: Tracked<T, S>): void {
    this.#dirty.delete(timeline);
    this.#removed.add(timeline.uid);
  }

  /** As {@link Timelines.drain}. */
  drain(limit = Infinity): Drained<T, S> {
    const changed: Tracked<T, S>[] = [];
    for (const timeline of this.#dirty) {
      if (changed.length >= limit) break;
      changed.push(timeline);
      this.noteWritten(timeline);
    }
    const removed = [...this.#removed];
    this.#removed.clear();
    return { changed, removed };
  }

  /** As {@link Timelines.putBack}; `isKept` tells of those that are not forgotten meanwhile. */
  putBack({ changed, removed }: Drained<T, S>, isKept: (timeline: Tracked<T, S>) => boolean): void {
    for (const timeline of changed) if (isKept(timeline)) this.noteChanged(timeline);
    this.discard(removed);
  }

  /** The journal forgets these. */
  discard(uids: Iterable<string>): void {
    for (const uid of uids) this.#removed.add(uid);
  }

  /** None of them is kept, and the journal has none of what has changed. */
  clear(): void {
    this.#dirty.clear();
  }
}
