import { type Arrival, happenedBetween, type Projected } from '../kubernetes/source.ts';
import { least } from '../model/extremes.ts';
import { encodeJson } from './journal-text.ts';
import type { Tracked } from './timelines.ts';

/** What a process was told of one object. */
export type Heard<T> =
  | { readonly kind: 'version'; readonly view: T; readonly arrival: Arrival }
  | { readonly kind: 'deleted'; readonly view: T; readonly arrival: Arrival }
  /** A list did not have it: it is known to have been there at `known`, and was gone at `listedAt`. */
  | { readonly kind: 'missed'; readonly known: number; readonly listedAt: number }
  /** What it says was read anew, by other settings. */
  | { readonly kind: 'read'; readonly at: number };

/** How long after the window in which it came about something may reach whoever closes windows, and its journal. */
const KEPT_MS = 60_000;

/** What an object said, and whether it was there, until the next of these. */
interface Known<T> {
  /** When it was told. */
  readonly at: number;
  /** Since when it may have been so. */
  readonly from: number;
  readonly view: T;
  readonly gone: boolean;
  /** How many spans there were then. */
  readonly spans: number;
  /** Undefined for what was known before anything that is kept. */
  readonly heard: Heard<T> | undefined;
}

/**
 * What a process that stands by was told of each object lately, in order: whoever takes over goes on from what the process before it has
 * written, and that one may not have been told of the last of these (docs/ledger-format.md#several-replicas).
 */
export class HeardVersions<T extends Projected, S> {
  readonly #byTimeline = new Map<Tracked<T, S>, Known<T>[]>();

  /** The timeline was as `before` (undefined: not known) until it was told this, and is now as it is. */
  note(
    timeline: Tracked<T, S>,
    heard: Heard<T>,
    before: Pick<Tracked<T, S>, 'view' | 'gone' | 'versionAt' | 'spans'> | undefined,
  ): void {
    const known = this.#byTimeline.get(timeline) ?? [];
    if (known.length === 0) {
      this.#byTimeline.set(timeline, known);
      if (before !== undefined) {
        const { view, gone, versionAt: at, spans } = before;
        known.push({ at, from: at, view, gone, spans: spans.length, heard: undefined });
      }
    }
    const { view, gone, spans } = timeline;
    const { at, from } = timesOf(heard);
    known.push({ at, from, view, gone, spans: spans.length, heard });
  }

  forget(timeline: Tracked<T, S>): void {
    this.#byTimeline.delete(timeline);
  }

  /** What was heard long before this end of a window is in the journal by now. */
  settle(end: number): void {
    const horizon = end - KEPT_MS;
    for (const [timeline, known] of this.#byTimeline) {
      const old = known.findLastIndex(({ at }) => at < horizon);
      const last = known[old];
      if (last === undefined) continue;
      if (old === known.length - 1) this.#byTimeline.delete(timeline);
      else known.splice(0, old + 1, { ...last, heard: undefined });
    }
  }

  /**
   * What this process was told of an object after what `written` has of it: after the version that is the last there, of which it
   * was told `at`. Of several that say the same it is one before which as much had changed, if there is any, and was told when it was there, or next to
   * that. Where this process was told of none, it is what came after that time.
   */
  since(
    timeline: Tracked<T, S>,
    written: Tracked<T, S>,
  ): { readonly at: number; readonly heard: readonly Heard<T>[] } {
    const { gone, versionAt, spans } = written;
    const known = this.#byTimeline.get(timeline) ?? [];
    const text = encodeJson(written.view);
    const alike = known.filter((each) => each.gone === gone && encodeJson(each.view) === text);
    const asLong = alike.filter((each) => each.spans === spans.length);
    const same = nearestTo(versionAt, asLong.length > 0 ? asLong : alike);
    // What is gone says nothing more, whoever was told of its end first.
    if (same === undefined && gone) return { at: versionAt, heard: [] };
    const after =
      same === undefined
        ? known.findLastIndex(({ at }) => at <= versionAt)
        : known.lastIndexOf(same);
    const heard = known.slice(after + 1).flatMap((each) => each.heard ?? []);
    return { at: same?.at ?? versionAt, heard };
  }
}

function nearestTo<T>(time: number, all: readonly Known<T>[]): Known<T> | undefined {
  const off = ({ from, at }: Known<T>): number => Math.max(from - time, time - at, 0);
  const nearest = least(all.map(off));
  return all.findLast((each) => off(each) === nearest);
}

/** When it was told, and since when it may have been so; milliseconds. */
export function timesOf(heard: Heard<unknown>): { readonly at: number; readonly from: number } {
  if (heard.kind === 'missed') return { at: heard.listedAt, from: heard.known };
  if (heard.kind === 'read') return { at: heard.at, from: heard.at };
  return { at: heard.arrival.at, from: happenedBetween(heard.arrival).from };
}
