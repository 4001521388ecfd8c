import type { Projected } from '../kubernetes/source.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { encodeJson, encodeTimeline } from './journal-text.ts';
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
  own.spans = withArrivalsOf(spansAfter(own.spans, horizon), spans);
  own.billed = billed;
  if (encodeTimeline({ ...own, versionAt }) === encodeTimeline({ ...written, spans, billed })) {
    own.dirty = false;
    return 'as written';
  }
  if (written.versionAt > own.versionAt && (written.gone || !own.gone)) {
    // Its end may have been seen there, and not here yet.
    Object.assign(own, written, { spans, billed, dirty: false });
    return 'as written';
  }
  const closed = billed ?? spans;
  own.billed = sameBefore(own.spans, closed, settled) ? undefined : closed;
  return 'changed';
}

/**
 * The spans that this process has, with the times at which the other one heard of the same changes: two processes are told of a change some
 * milliseconds apart, and windows were closed by when the other one was told. What the API dates is the same for both, unless
 * one knows more, and comes in whole seconds: such a time is kept.
 */
function withArrivalsOf<S>(
  own: readonly Span<S>[],
  written: readonly Span<S>[],
): readonly Span<S>[] {
  const isSameCourse =
    written.length <= own.length &&
    written.every(({ state }, index) => encodeJson(state) === encodeJson(own[index]?.state));
  if (!isSameCourse) return own;
  const told = own.map((span, index) => {
    const other = written[index];
    if (other === undefined) return span;
    const { from, to, unsureFrom, unsureTo, endedBy } = other;
    const begun = isArrival(span.from) ? { from, unsureFrom } : {};
    // Where it went on to something that was not written, it ended when that began.
    const isLast = index === written.length - 1 && own.length > written.length;
    const isEnded = !isLast && to < Infinity && isArrival(span.to);
    const ended = isEnded ? { to, unsureTo, endedBy } : {};
    return spanOf({ ...span, ...begun, ...ended });
  });
  // Times of both may not go together where one of them knows more.
  const inOrder = told.every(({ from, to }, index) => {
    return from < to && from >= (told[index - 1]?.to ?? -Infinity);
  });
  return inOrder ? told : own;
}

function isArrival(time: number): boolean {
  return time < Infinity && time % 1_000 !== 0;
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

/** Whether both say the same of the time before `at`. Their states are equal, if at all, and never the same values. */
function sameBefore<S>(a: readonly Span<S>[], b: readonly Span<S>[], at: number): boolean {
  const text = (spans: readonly Span<S>[]): string =>
    encodeJson(spansBefore(spans, at).map(({ from, to, state }) => ({ from, to, state })));
  return text(a) === text(b);
}
