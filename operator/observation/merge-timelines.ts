import { omitUndefined } from '../model/omit-undefined.ts';
import { encodeJson } from './journal-text.ts';
import { type Span, spansAfter, spansBefore } from './timeline.ts';
import type { Observed, Tracked } from './timelines.ts';

/**
 * Brings a timeline that this process has kept together with what another one has written of it by the end `settled` of the
 * last closed window. Of what ended before `horizon` each may have forgotten another part, and neither counts. Gives
 * whether the journal has to be written anew.
 */
export function merge<T extends Observed, S>(
  own: Tracked<T, S>,
  written: Tracked<T, S>,
  { settled, horizon }: { readonly settled: number; readonly horizon: number },
): 'as written' | 'changed' {
  const { versionAt } = written;
  const spans = spansAfter(written.spans, horizon);
  const billed = written.billed && spansAfter(written.billed, horizon);
  own.spans = spansAfter(own.spans, horizon);
  own.billed = billed;
  const isAhead = goesFurther(own.spans, spans);
  if (!isAhead && knowSame(own, written)) {
    own.spans = spans;
    own.dirty = false;
    return 'as written';
  }
  if (written.versionAt > own.versionAt && (written.gone || !(own.gone || isAhead))) {
    // Its end may have been seen there, and not here yet.
    Object.assign(own, written, { spans, billed, dirty: false });
    return 'as written';
  }
  own.spans = together(own.spans, { spans, versionAt }, settled) ?? own.spans;
  const closed = billed ?? spans;
  own.billed = sameBefore(own.spans, closed, settled) ? undefined : closed;
  return 'changed';
}

/** Whether the object is to both what it was when it was written. */
function knowSame<T extends Observed, S>(own: Tracked<T, S>, written: Tracked<T, S>): boolean {
  const { view, gone, finished } = own;
  if (gone !== written.gone || finished !== written.finished) return false;
  return encodeJson(view) === encodeJson(written.view);
}

/**
 * Whether this process knows of all that the other one has written, and of more since. Neither who was told last nor how
 * the object is tells it: where the other one lagged, it may have been told of an older version after this one was told of
 * a newer one, and the object may be again what it was.
 */
function goesFurther<S>(own: readonly Span<S>[], written: readonly Span<S>[]): boolean {
  const [mine, others] = [joinedStates(own), joinedStates(written)];
  return mine.length > others.length && beginsWith(mine, others);
}

/** Whether the states that were written are the first of those that this process has. */
function beginsWith<S>(own: readonly Span<S>[], written: readonly Span<S>[]): boolean {
  return (
    written.length <= own.length &&
    written.every(({ state }, index) => isSame(state, own[index]?.state))
  );
}

/** What another process has written of an object: up to the version that it was told at `versionAt`. */
interface Written<S> {
  readonly spans: readonly Span<S>[];
  readonly versionAt: number;
}

/** The spans of both: undefined where they do not go together. */
function together<S>(
  spans: readonly Span<S>[],
  written: Written<S>,
  settled: number,
): readonly Span<S>[] | undefined {
  const own = joinedStates(spans);
  const alike = withArrivalsOf(own, written.spans);
  // It was there already when this process came, which has seen less of it than the other one.
  const cameLater = own.some(({ unsureFrom = 0, unsureTo = 0 }) => unsureFrom + unsureTo > 0);
  return alike !== undefined || !cameLater ? alike : goingOn(own, written, settled);
}

/** What the API dates comes in whole seconds, and is the same for whoever is told. */
function isTold(time: number, unsure = 0): boolean {
  return time < Infinity && unsure === 0 && time % 1_000 === 0;
}

/**
 * The spans that this process has, with the times at which the other one was told of the same changes: two processes are told of a change
 * that the API does not date some milliseconds apart, and windows were closed by when the other one was. Undefined where they do not
 * tell of the same changes.
 */
function withArrivalsOf<S>(
  own: readonly Span<S>[],
  written: readonly Span<S>[],
): readonly Span<S>[] | undefined {
  if (!beginsWith(own, written)) return undefined;
  const told = own.map((span, index) => {
    const other = written[index];
    if (other === undefined) return span;
    const { from, to, unsureFrom, unsureTo, endedBy } = other;
    const begun = isTold(span.from, span.unsureFrom) ? {} : { from, unsureFrom };
    // Where it went on to something that was not written, it ended when that began.
    const isLast = index === written.length - 1 && own.length > written.length;
    const isEnded =
      !isLast && to < Infinity && span.to < Infinity && !isTold(span.to, span.unsureTo);
    const ended = isEnded ? { to, unsureTo, endedBy } : {};
    return spanOf({ ...span, ...begun, ...ended });
  });
  return inOrder(told);
}

/**
 * What was written, and what this process has seen since. Undefined where it knows something of the time before the end of the last
 * closed window that was not known there.
 */
function goingOn<S>(
  own: readonly Span<S>[],
  { spans, versionAt }: Written<S>,
  settled: number,
): readonly Span<S>[] | undefined {
  const known = new Set(spans.flatMap(({ from, to }) => [from, to]));
  const isNews = (time: number, unsure?: number): boolean =>
    time < settled && !known.has(time) && isTold(time, unsure);
  if (own.some(({ from, unsureFrom }) => isNews(from, unsureFrom))) return undefined;
  if (own.some(({ to, unsureTo }) => isNews(to, unsureTo))) return undefined;
  if ((own.at(-1)?.to ?? 0) < settled && spans.at(-1)?.to === Infinity) return undefined;
  // Up to where it is not sure itself of what it was, if it comes to the same.
  const unsure = own.findLast(
    ({ from, state, unsureFrom = 0 }) => unsureFrom > 0 && isSame(state, stateAt(spans, from)),
  );
  const since = Math.max(settled, versionAt, unsure?.from ?? -Infinity);
  const after = spansAfter(own, since).map((span) =>
    span.from >= since ? span : spanOf({ ...span, from: since, unsureFrom: undefined }),
  );
  return inOrder(joinedStates([...spansBefore(spans, since), ...after]));
}

/** The spans, of which those are one that follow each other in the same state. */
function joinedStates<S>(spans: readonly Span<S>[]): readonly Span<S>[] {
  const joined: Span<S>[] = [];
  for (const span of spans) {
    const last = joined.at(-1);
    if (last === undefined || last.to !== span.from || !isSame(last.state, span.state)) {
      joined.push(span);
      continue;
    }
    const { to, state, unsureTo, endedBy } = span;
    joined[joined.length - 1] = spanOf({ ...last, to, state, unsureTo, endedBy });
  }
  return joined;
}

function stateAt<S>(spans: readonly Span<S>[], time: number): S | undefined {
  return spans.find(({ from, to }) => from <= time && time < to)?.state;
}

/** States of two processes are equal, if at all, and never the same values. */
function isSame(a: unknown, b: unknown): boolean {
  return encodeJson(a) === encodeJson(b);
}

/** The spans, unless times of both do not go together. */
function inOrder<S>(spans: readonly Span<S>[]): readonly Span<S>[] | undefined {
  const isInOrder = spans.every(({ from, to }, index) => {
    return from <= to && from >= (spans[index - 1]?.to ?? -Infinity);
  });
  return isInOrder ? spans : undefined;
}

function spanOf<S>({
  from,
  to,
  state,
  ...rest
}: Omit<Span<S>, 'unsureFrom' | 'unsureTo' | 'endedBy'> & {
  readonly unsureFrom?: number | undefined;
  readonly unsureTo?: number | undefined;
  readonly endedBy?: string | undefined;
}): Span<S> {
  return { from, to, state, ...omitUndefined(rest) };
}

/** Whether both say the same of the time before `at`. */
function sameBefore<S>(a: readonly Span<S>[], b: readonly Span<S>[], at: number): boolean {
  const [left, right] = [spansBefore(a, at), spansBefore(b, at)];
  if (left.length !== right.length) return false;
  return left.every(({ from, to, state }, index) => {
    const other = right[index];
    return other?.from === from && other.to === to && isSame(other.state, state);
  });
}
