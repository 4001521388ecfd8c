import type { Projected } from '../kubernetes/source.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { encodeJson } from './journal-text.ts';
import { type Span, spansAfter, spansBefore } from './timeline.ts';
import type { Tracked } from './timelines.ts';

/**
 * Brings a timeline that this process has kept together with what another one has written of it by the end `settled` of the
 * last closed window. Of what ended before `horizon` each may have forgotten another part, and neither counts. Gives
 * whether the journal has to be written anew.
 */
export function merge<T extends Projected, S>(
  own: Tracked<T, S>,
  written: Tracked<T, S>,
  { settled, horizon }: { readonly settled: number; readonly horizon: number },
): 'as written' | 'changed' {
  const { versionAt } = written;
  const spans = spansAfter(written.spans, horizon);
  const billed = written.billed && spansAfter(written.billed, horizon);
  own.spans = spansAfter(own.spans, horizon);
  own.billed = billed;
  if (knowSame(own, written)) {
    own.spans = spans;
    own.dirty = false;
    return 'as written';
  }
  if (written.versionAt > own.versionAt && (written.gone || !own.gone)) {
    // Its end may have been seen there, and not here yet.
    Object.assign(own, written, { spans, billed, dirty: false });
    return 'as written';
  }
  own.spans =
    withArrivalsOf(own.spans, spans) ??
    goingOn(own.spans, { spans, versionAt }, settled) ??
    own.spans;
  const closed = billed ?? spans;
  own.billed = sameBefore(own.spans, closed, settled) ? undefined : closed;
  return 'changed';
}

/** Whether neither has seen anything of the object that the other has not. */
function knowSame<T extends Projected, S>(own: Tracked<T, S>, written: Tracked<T, S>): boolean {
  const { view, gone, finished } = own;
  if (gone !== written.gone || finished !== written.finished) return false;
  return encodeJson(view) === encodeJson(written.view);
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
  const isSameCourse =
    written.length <= own.length &&
    written.every(({ state }, index) => isSame(state, own[index]?.state));
  if (!isSameCourse) return undefined;
  const told = own.map((span, index) => {
    const other = written[index];
    if (other === undefined) return span;
    const { from, to, unsureFrom, unsureTo, endedBy } = other;
    const begun = isDated(span.from, span.unsureFrom) ? {} : { from, unsureFrom };
    // Where it went on to something that was not written, it ended when that began.
    const isLast = index === written.length - 1 && own.length > written.length;
    const isEnded = !isLast && to < Infinity && !isDated(span.to, span.unsureTo);
    const ended = isEnded ? { to, unsureTo, endedBy } : {};
    return spanOf({ ...span, ...begun, ...ended });
  });
  return inOrder(told);
}

/**
 * What was written, and what this process has seen since, where it has not seen all of what was before: it was started later. Undefined where
 * it has, or knows of a time before the end of the last closed window that the API has told since.
 */
function goingOn<S>(
  own: readonly Span<S>[],
  written: { readonly spans: readonly Span<S>[]; readonly versionAt: number },
  settled: number,
): readonly Span<S>[] | undefined {
  const { spans, versionAt } = written;
  if (!own.some(({ unsureFrom = 0, unsureTo = 0 }) => unsureFrom + unsureTo > 0)) return undefined;
  const known = new Set(spans.flatMap(({ from, to }) => [from, to]));
  const isNews = (time: number, unsure?: number): boolean =>
    time < settled && isDated(time, unsure) && !known.has(time);
  if (own.some(({ from, unsureFrom }) => isNews(from, unsureFrom))) return undefined;
  if (own.some(({ to, unsureTo }) => isNews(to, unsureTo))) return undefined;
  // Up to where it is not sure itself of what it was, if it comes to the same.
  const unsure = own.findLast(
    ({ from, state, unsureFrom = 0 }) => unsureFrom > 0 && isSame(state, stateAt(spans, from)),
  );
  const since = Math.max(settled, versionAt, unsure?.from ?? -Infinity);
  const before = spansBefore(spans, since);
  const after = spansAfter(own, since).map((span) =>
    span.from >= since ? span : spanOf({ ...span, from: since, unsureFrom: undefined }),
  );
  const last = before.at(-1);
  const [first] = after;
  if (last === undefined || first === undefined || last.to !== first.from) {
    return inOrder([...before, ...after]);
  }
  if (!isSame(last.state, first.state)) return inOrder([...before, ...after]);
  const { to, unsureTo, endedBy, state } = first;
  const joined = spanOf({ ...last, state, to, unsureTo, endedBy });
  return inOrder([...before.slice(0, -1), joined, ...after.slice(1)]);
}

/** What the API dates comes in whole seconds, and is the same for whoever is told. */
function isDated(time: number, unsure = 0): boolean {
  return time === Infinity || (unsure === 0 && time % 1_000 === 0);
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
    return from < to && from >= (spans[index - 1]?.to ?? -Infinity);
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
  const text = (spans: readonly Span<S>[]): string =>
    encodeJson(spansBefore(spans, at).map(({ from, to, state }) => ({ from, to, state })));
  return text(a) === text(b);
}
