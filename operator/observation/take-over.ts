import { type Heard, type HeardVersions, timesOf } from './heard-versions.ts';
import { encodeJson } from './journal-text.ts';
import { goneHorizon, isLongGone, type KeptTimelines } from './kept-timelines.ts';
import type { TimelineFollower } from './timeline-follower.ts';
import { agreeBefore, joinedAt } from './timeline.ts';
import type { Observed, Tracked } from './timelines.ts';

/** What a process has that has stood by. */
export interface TakeOverParts<T extends Observed, S> {
  readonly kept: KeptTimelines<T, S>;
  readonly follower: Pick<TimelineFollower<T, S>, 'see' | 'delete' | 'miss' | 'readAnew'>;
  /** What it was told lately; undefined where nobody else wrote the journal. */
  readonly heard: Pick<HeardVersions<T, S>, 'since'> | undefined;
}

/**
 * Each timeline goes on from what another process has written of it, and closed windows up to `settled` ({@link Timelines.adopt});
 * `comparedAt` where that one took something else out of objects.
 */
export function takeOver<T extends Observed, S>(
  { kept, follower, heard }: TakeOverParts<T, S>,
  written: Iterable<Tracked<T, S>> | undefined,
  settled: number,
  comparedAt?: number,
): void {
  const unwritten = new Set(kept.index.all());
  for (const journalled of written ?? []) {
    const own = kept.index.find(journalled);
    if (own === undefined) {
      kept.add(journalled);
      continue;
    }
    unwritten.delete(own);
    const since = heard?.since(own, journalled) ?? { at: 0, heard: [] };
    const [next] = since.heard;
    if (next !== undefined && timesOf(next).at < journalled.versionAt) {
      // The other one lagged: it was told of this version later than this process of the next.
      goOnAt(kept, own, journalled, since.at, settled);
      continue;
    }
    const { view } = own;
    goOnFrom(kept, own, journalled);
    for (const each of since.heard) hearAgain(follower, own, each);
    if (comparedAt === undefined || own.gone) continue;
    follower.see(view, { at: comparedAt, knownUntil: settled, late: true });
  }
  for (const own of unwritten) goOnUnwritten(kept, own, written !== undefined, settled);
}

/** The timeline is what another process has written of it. */
function goOnFrom<T extends Observed, S>(
  kept: KeptTimelines<T, S>,
  own: Tracked<T, S>,
  written: Tracked<T, S>,
): void {
  const { spans, billed, versionAt, finished, gone, view } = written;
  const before = own.spans;
  // The watch holds its own view anyway: one that says the same would be held twice.
  if (!sameText(own.view, view)) own.view = view;
  Object.assign(own, { spans, versionAt, finished, gone });
  kept.setBilled(own, billed);
  kept.unwritten.noteWritten(own);
  kept.noteSpans(own, before);
}

/** The timeline is what another process has written of the time before `at`, and is right from then on. */
function goOnAt<T extends Observed, S>(
  kept: KeptTimelines<T, S>,
  own: Tracked<T, S>,
  written: Tracked<T, S>,
  at: number,
  settled: number,
): void {
  const before = own.spans;
  own.spans = joinedAt(written.spans, before, at, sameText);
  const billed = written.billed ?? written.spans;
  const isBilled = agreeBefore(billed, own.spans, settled, sameText);
  kept.setBilled(own, isBilled ? undefined : billed);
  kept.noteSpans(own, before);
  kept.unwritten.noteChanged(own);
}

/** What was heard by this process goes on where another one has stopped. */
function hearAgain<T extends Observed, S>(
  follower: TakeOverParts<T, S>['follower'],
  timeline: Tracked<T, S>,
  heard: Heard<T>,
): void {
  if (heard.kind === 'version') follower.see(heard.view, heard.arrival);
  else if (timeline.gone) return;
  else if (heard.kind === 'deleted') follower.delete(heard.view, heard.arrival);
  else if (heard.kind === 'missed') follower.miss(timeline, heard);
  else follower.readAnew(timeline, heard.at);
}

/** The journal has nothing of it; `isWhole`: it has all that closed windows billed. */
function goOnUnwritten<T extends Observed, S>(
  kept: KeptTimelines<T, S>,
  own: Tracked<T, S>,
  isWhole: boolean,
  settled: number,
): void {
  const long = goneHorizon(settled);
  if (isLongGone(own, long)) {
    kept.drop(own);
    return;
  }
  kept.unwritten.noteChanged(own);
  if (!isWhole) return;
  const [first = { from: Infinity }] = own.spans;
  // An older one was billed, and could not be written.
  if (first.from >= settled || first.from <= long) return;
  kept.setBilled(own, []);
}

function sameText(one: unknown, other: unknown): boolean {
  return encodeJson(one) === encodeJson(other);
}
