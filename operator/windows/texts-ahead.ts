import type { Projected } from '../kubernetes/source.ts';
import { encodeTimeline } from '../observation/journal-text.ts';
import type { Timelines, Tracked } from '../observation/timelines.ts';

interface Ahead {
  /** What it was when the text was made. */
  readonly as: Omit<Tracked<Projected, unknown>, 'dirty'>;
  readonly text: string;
}

/**
 * Texts for the journal that are made before they are asked for. A window is closed and written without a
 * wait between, and writing thousands of objects would then keep everybody else waiting; made ahead, in
 * short turns, only what changed since is left to be made.
 */
export class TextsAhead {
  /** By the newest version of the object. */
  readonly #texts = new Map<Projected, Ahead>();

  /**
   * Makes the text of one changed object after the other, with time for others after each; with `settledAt` as
   * they will be when a window with that end is closed.
   */
  *make<T extends Projected, S>(
    timelines: Pick<Timelines<T, S>, 'changed'>,
    settledAt?: number,
  ): Generator<void> {
    for (const timeline of timelines.changed(settledAt)) {
      const known = this.#texts.get(timeline.view);
      if (known !== undefined && isAs(timeline, known.as)) continue;
      try {
        const text = encodeTimeline(timeline);
        this.#texts.set(timeline.view, { as: { ...timeline }, text });
      } catch {
        // Whoever asks for it is told.
      }
      yield;
    }
  }

  /** The text of an object as it is now; throws when it has none. */
  of<T extends Projected, S>(timeline: Tracked<T, S>): string {
    const ahead = this.#texts.get(timeline.view);
    return ahead !== undefined && isAs(timeline, ahead.as) ? ahead.text : encodeTimeline(timeline);
  }

  clear(): void {
    this.#texts.clear();
  }
}

/** Views and spans are replaced when they change, never written to. */
function isAs(timeline: Tracked<Projected, unknown>, before: Ahead['as']): boolean {
  return (
    timeline.view === before.view &&
    isSame(timeline.spans, before.spans) &&
    timeline.billed === before.billed &&
    timeline.versionAt === before.versionAt &&
    timeline.finished === before.finished &&
    timeline.gone === before.gone
  );
}

function isSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a === b || (a.length === b.length && a.every((each, index) => each === b[index]));
}
